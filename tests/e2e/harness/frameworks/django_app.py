"""The Django origin of the framework matrix: says how Django, or its REST framework, reads the request. Its server is that of `manage.py
runserver`."""
import json
import sys

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import run
from django.http import JsonResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of the framework matrix",
    DEFAULT_CHARSET="utf-8",
    USE_TZ=True,
)
django.setup()


def values(of):
    # What `of[name]` gives.
    return {name: [of[name]] for name in of}


def members(content):
    content = content if isinstance(content, dict) else {}
    return {name: [value] for name, value in content.items() if isinstance(value, str)}


def bodies(request):
    # The form and the JSON of the body.
    is_json = "json" in request.META.get("CONTENT_TYPE", "").lower()
    try:
        if sys.argv[2:] == ["rest"]:
            from rest_framework import parsers
            from rest_framework.request import Request

            known = [parsers.JSONParser(), parsers.FormParser(), parsers.MultiPartParser()]
            content = Request(request, parsers=known).data
            return ({}, members(content)) if is_json else (values(content), {})
        if is_json:
            return {}, members(json.loads(request.body.decode(request.encoding or "utf-8")))
        return values(request.POST), {}
    except Exception as error:
        print(error, file=sys.stderr)
        return {}, {}


def report(request, limited):
    form, content = bodies(request)
    answer = JsonResponse(
        {
            "limited": limited,
            "read": {"path": request.path},
            "method": request.method,
            "form": form,
            "json": content,
            "query": values(request.GET),
            "cookie": values(request.COOKIES),
            "header": {name.lower(): [value] for name, value in request.headers.items()},
        }
    )
    answer["X-Dispatched"] = "limited" if limited else "other"
    return answer


@csrf_exempt
def limited(request):
    return report(request, True)


@csrf_exempt
def other(request):
    return report(request, False)


urlpatterns = [re_path(r"(?i)^auth/sendOTP/?$", limited), re_path(r"", other)]

host, port = sys.argv[1].rsplit(":", 1)
run(host, int(port), WSGIHandler(), threading=True)

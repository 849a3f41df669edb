"""The WebOb origin of the framework matrix: says how WebOb, on which Pyramid stands, reads the request. Its server is wsgiref's."""
import json
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server

from webob import Request, Response


def values(of):
    # What `of[name]` gives.
    return {name: [of[name]] if isinstance(of[name], str) else [] for name in of}


def application(environ, start_response):
    request = Request(environ)
    limited = request.path_info.rstrip("/") == "/auth/sendOTP"
    answer = {
        "limited": limited,
        "read": {"path_info": request.path_info},
        "method": request.method,
        "form": values(request.POST),
        # WebOb merges the query with the form.
        "query": values(request.params),
        "cookie": values(request.cookies),
        "header": {name.lower(): [value] for name, value in request.headers.items()},
    }
    response = Response(json.dumps(answer), content_type="application/json", charset="utf-8")
    response.headers["X-Dispatched"] = "limited" if limited else "other"
    return response(environ, start_response)


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


host, port = sys.argv[1].rsplit(":", 1)
make_server(host, int(port), application, handler_class=Quiet).serve_forever()

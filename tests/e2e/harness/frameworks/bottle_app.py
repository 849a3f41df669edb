"""The Bottle origin of the framework matrix: says how Bottle reads the request. Its server is wsgiref's."""
import json
import sys

import bottle
from bottle import request, response

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"]


def values(of):
    # What `of.getunicode(name)` gives.
    return {name: [of.getunicode(name)] for name in of}


def report(limited):
    response.content_type = "application/json"
    response.set_header("X-Dispatched", "limited" if limited else "other")
    return json.dumps(
        {
            "limited": limited,
            "read": {"path": request.path},
            "method": request.method,
            "form": values(request.forms),
            # Bottle merges the query with the form.
            "query": values(request.params),
            "cookie": values(request.cookies),
            "credentials": [":".join(request.auth)] if request.auth else [],
            "header": {name.lower(): [value] for name, value in request.headers.items()},
        }
    )


@bottle.route("/auth/sendOTP", method=METHODS)
@bottle.route("/auth/sendOTP/", method=METHODS)
def limited():
    return report(True)


@bottle.route("/", method=METHODS)
@bottle.route("/<path:path>", method=METHODS)
def other(path=""):
    return report(False)


host, port = sys.argv[1].rsplit(":", 1)
bottle.run(host=host, port=int(port), quiet=True)

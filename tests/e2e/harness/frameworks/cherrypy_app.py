"""The CherryPy origin of the framework matrix: says how CherryPy, on cheroot, reads the request."""
import json
import sys

import cherrypy


def listed(value):
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def report(limited):
    request = cherrypy.request
    cherrypy.response.headers["Content-Type"] = "application/json"
    cherrypy.response.headers["X-Dispatched"] = "limited" if limited else "other"
    cherrypy.response.status = 200
    form = request.body.params or {}
    # CherryPy gives the parameters of query and body as one.
    query = {name: value for name, value in request.params.items() if name not in form}
    return json.dumps(
        {
            "limited": limited,
            "read": {"path_info": request.path_info},
            "method": request.method,
            "form": {str(name): listed(value) for name, value in form.items()},
            "query": {str(name): listed(value) for name, value in query.items()},
            "cookie": {name: [morsel.value] for name, morsel in request.cookie.items()},
            "header": {name.lower(): [value] for name, value in request.headers.items()},
        }
    ).encode()


class Auth:
    @cherrypy.expose
    def sendOTP(self, **_parameters):
        return report(True)


class Root:
    auth = Auth()


def other(status, message, traceback, version):
    return report(False).decode()


host, port = sys.argv[1].rsplit(":", 1)
cherrypy.config.update(
    {
        "server.socket_host": host,
        "server.socket_port": int(port),
        "engine.autoreload.on": False,
        "error_page.404": other,
        "log.screen": False,
    }
)
cherrypy.quickstart(Root())

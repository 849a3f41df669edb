"""The Flask origin of the framework matrix: says how Flask reads the request. Its server is Werkzeug's own."""
import sys

from flask import Flask, jsonify, request

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
app = Flask(__name__, static_folder=None)


def values(of):
    # What `of[name]` gives.
    return {name: [of[name]] for name in of.keys()}


def members():
    content = request.get_json(force=True, silent=True) if "json" in request.headers.get("content-type", "").lower() else {}
    content = content if isinstance(content, dict) else {}
    return {name: [value] for name, value in content.items() if isinstance(value, str)}


def credentials(of):
    if of is None:
        return []
    if of.type == "basic":
        return [f"{of.username}:{of.password}"]
    # Since Werkzeug 2.3.
    token = getattr(of, "token", None)
    return [token] if token else []


def report(limited):
    answer = jsonify(
        limited=limited,
        read={"path": request.path},
        method=request.method,
        form=values(request.form),
        json=members(),
        query=values(request.args),
        cookie=values(request.cookies),
        credentials=credentials(request.authorization),
        header={name.lower(): [value] for name, value in request.headers.items()},
    )
    answer.headers["X-Dispatched"] = "limited" if limited else "other"
    return answer


@app.route("/auth/sendOTP", methods=METHODS, strict_slashes=False)
def limited():
    return report(True)


def found(id):
    answer = jsonify(id=str(id))
    answer.headers["X-Dispatched"] = "limited"
    return answer


@app.route("/items/<int:id>")
def item(id):
    return found(id)


@app.route("/documents/<uuid:id>")
def document(id):
    return found(id)


@app.errorhandler(404)
@app.errorhandler(405)
def other(_error):
    return report(False)


host, port = sys.argv[1].rsplit(":", 1)
app.run(host, int(port), threaded=True)

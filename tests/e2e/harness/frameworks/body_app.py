"""Origins of the framework matrix that are read for bodies alone: aiohttp, Litestar, Sanic and BlackSheep, each on its usual server."""
import sys

address, kind = sys.argv[1:]
host, port = address.rsplit(":", 1)
DISPATCHED = {"X-Dispatched": "other"}


def texts(values):
    return [value for value in values if isinstance(value, str)]


def report(method, form, content):
    content = content if isinstance(content, dict) else {}
    return {
        "limited": False,
        "read": {},
        "method": method,
        "form": form,
        "json": {name: [value] for name, value in content.items() if isinstance(value, str)},
    }


async def read(request, declared, form_of, json_of):
    # An application that expects JSON reads JSON, whatever the parameters of the type are.
    form, content = {}, None
    try:
        if "json" in declared.lower():
            content = await json_of()
        else:
            form = await form_of()
    except Exception as error:
        print(error, file=sys.stderr)
    return report(request.method, form, content)


def aiohttp_app():
    from aiohttp import web

    async def handle(request):
        async def form():
            found = await request.post()
            return {name: texts(found.getall(name)) for name in found.keys()}

        return web.json_response(
            await read(request, request.headers.get("content-type", ""), form, request.json), headers=DISPATCHED
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    web.run_app(app, host=host, port=int(port), print=None)


def litestar_app():
    import uvicorn
    from litestar import Litestar, Request, Response, post

    @post(["/", "/{path:path}"], status_code=200)
    async def handle(request: Request) -> Response:
        async def form():
            found = await request.form()
            return {name: texts(found.getall(name)) for name in found.keys()}

        declared = request.headers.get("content-type", "")
        return Response(await read(request, declared, form, request.json), headers=DISPATCHED)

    uvicorn.run(Litestar([handle]), host=host, port=int(port), log_level="error")


def sanic_app():
    from sanic import Sanic, response

    app = Sanic("matrix")

    async def handle(request, path=""):
        async def form():
            return {name: texts(request.form.getlist(name)) for name in request.form}

        async def content():
            return request.json

        declared = request.headers.get("content-type", "")
        return response.json(await read(request, declared, form, content), headers=DISPATCHED)

    for path in ["/", "/<path:path>"]:
        app.add_route(handle, path, methods=["POST"], name=f"handle{len(path)}")
    app.run(host, int(port), single_process=True, access_log=False, motd=False)


def blacksheep_app():
    import uvicorn
    from blacksheep import Application, Request, json

    app = Application()

    @app.router.post("*")
    async def handle(request: Request):
        async def form():
            found = await request.form() or {}
            return {
                name: texts(value if isinstance(value, list) else [value]) for name, value in found.items()
            }

        declared = (request.content_type() or b"").decode("latin-1")
        answer = json(await read(request, declared, form, request.json))
        answer.headers.add(b"X-Dispatched", b"other")
        return answer

    uvicorn.run(app, host=host, port=int(port), log_level="error")


{"aiohttp": aiohttp_app, "litestar": litestar_app, "sanic": sanic_app, "blacksheep": blacksheep_app}[kind]()

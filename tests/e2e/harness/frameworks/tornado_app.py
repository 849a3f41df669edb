"""The Tornado origin of the framework matrix: says how Tornado reads the request."""
import asyncio
import sys

import tornado.web


def report(limited):
    class Report(tornado.web.RequestHandler):
        SUPPORTED_METHODS = tornado.web.RequestHandler.SUPPORTED_METHODS + ("QUERY",)

        def answer(self):
            request = self.request
            self.set_header("X-Dispatched", "limited" if limited else "other")
            self.write(
                {
                    "limited": limited,
                    "read": {"path": request.path},
                    "method": request.method,
                    "form": {name: self.get_body_arguments(name) for name in request.body_arguments},
                    # What `get_argument` finds: the query and the form.
                    "query": {name: self.get_arguments(name) for name in request.arguments},
                    "cookie": {name: [self.get_cookie(name)] for name in self.cookies},
                    "header": {name.lower(): [value] for name, value in request.headers.get_all()},
                }
            )

        get = head = post = put = patch = delete = options = query = answer

    return Report


async def main():
    host, port = sys.argv[1].rsplit(":", 1)
    routes = [(r"(?i)/auth/sendOTP/?", report(True)), (r".*", report(False))]
    tornado.web.Application(routes).listen(int(port), host)
    await asyncio.Event().wait()


asyncio.run(main())

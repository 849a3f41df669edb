"""A client of HTTP/3 by libcurl with ngtcp2: one request, which prints status, protocol and the number of bytes.

The arguments are a URL, the path of a certificate authority, and the bytes of a body, if it is to have one.
"""

import json
import sys

from curl_cffi import CurlHttpVersion, CurlOpt, requests

url, authority, *body = sys.argv[1:]
port = url.split(":")[2].split("/")[0]
session = requests.Session(curl_options={CurlOpt.RESOLVE: [f"a.test:{port}:127.0.0.1"]})
answer = session.request(
    "POST" if body else "GET",
    url,
    data=b"x" * int(body[0]) if body else None,
    http_version=CurlHttpVersion.V3ONLY,
    verify=authority,
    timeout=30,
)
print(json.dumps([answer.status_code, answer.http_version == 30, len(answer.content)]))

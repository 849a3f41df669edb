#!/usr/bin/env python3
"""Stands in for nginx in nginx's own tests: imports the configuration of a test, and runs the gateway with the result.

It takes the arguments and signals of nginx. Of what is to be filled in it fills in the origin of files: an nginx with the files of the
test, without its limits, lists and proxied servers. Refusals get nginx's status 503, and requests one thread, so that they are decided in
the order in which they are sent.

SLUICEGATE is the gateway's binary; each import is written to SHIM_LOG.
"""

import getpass
import os
import re
import signal
import socket
import subprocess
import sys
import time

GATEWAY = os.environ["SLUICEGATE"]
NGINX = os.environ.get("NGINX", "nginx")
MODULES = """nginx version: nginx/1.31.0
built with OpenSSL 3.0.0 7 sep 2021
TLS SNI support enabled
configure arguments: --with-http_ssl_module --with-http_v2_module --with-http_realip_module --with-http_auth_request_module
"""
# Directives by which nginx finds and describes files.
OF_FILES = {"root", "alias", "index", "autoindex", "default_type", "types", "charset", "location", "server", "http"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def parse(text):
    """Returns the directives of a configuration: lists of words, the last of them a block or None."""
    tokens = re.findall(r"""\s+|\#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|(?:\\.|\$\{[^}]*\}|[^\s{};\\])+""", text)
    stack, words = [[]], []
    for token in tokens:
        if token.isspace() or token.startswith("#"):
            continue
        if token == ";":
            stack[-1].append((words, None))
            words = []
        elif token == "{":
            block = []
            stack[-1].append((words, block))
            stack.append(block)
            words = []
        elif token == "}":
            stack.pop()
        else:
            words.append(token)
    return stack[0]


def of_files(directives):
    """Keeps what is about files, as text."""
    out = ""
    for words, block in directives:
        if words[0] not in OF_FILES:
            continue
        if block is None:
            out += " ".join(words) + ";\n"
        else:
            inner = of_files(block) if words[0] != "types" else "".join(" ".join(w) + ";\n" for w, _ in block)
            out += " ".join(words) + " {\n" + inner + "}\n"
    return out


def file_server(directory, text, port):
    """Returns a configuration of nginx that answers with the files of all server blocks."""
    http = [block for words, block in parse(text) if words[0] == "http"][0]
    outer = [(w, b) for w, b in http if w[0] != "server"]
    inner, seen = [], set()
    for words, block in http:
        if words[0] != "server":
            continue
        for directive in block:
            key = tuple(directive[0]) if directive[0][0] == "location" else directive[0][0]
            if key not in seen and not (directive[0][0] == "location" and directive[0][1].startswith("@")):
                seen.add(key)
                inner.append(directive)
    temporary = "".join(
        f"{kind}_temp_path {directory}/files_{kind};\n" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    )
    return (
        f"daemon off; user {getpass.getuser()}; pid {directory}/files.pid; error_log {directory}/files.log;\nevents {{}}\n"
        f"http {{ access_log off; {temporary} {of_files(outer)}\n"
        f"server {{ listen 127.0.0.1:{port}; {of_files(inner)} }} }}\n"
    )


def write(path, text):
    with open(path, "w", encoding="latin-1") as file:
        file.write(text)


class StandIn:
    def __init__(self, directory, configuration):
        self.directory = directory
        self.configuration = os.path.join(directory, configuration)
        self.port = free_port()
        self.files = None
        self.gateway = None

    def translate(self):
        """Imports the configuration; returns true if there is a result."""
        with open(self.configuration, encoding="latin-1") as file:
            text = file.read()
        # Refusals of nginx have this status where none is written.
        statuses = "".join(f" {name} 503;" for name in ("limit_req_status", "limit_conn_status"))
        written = re.sub(r"(?m)^http \{", "http {" + statuses, text, count=1)
        imported = self.path("imported.conf")
        write(imported, written)
        result = subprocess.run(
            [GATEWAY, "import", "--format", "nginx", imported], capture_output=True, timeout=60, check=False
        )
        report = result.stderr.decode("latin-1")
        write(self.path("import.txt"), report)
        self.log(f"== import exits with {result.returncode}\n{report}")
        if result.returncode not in (0, 2):
            return False
        toml = result.stdout.decode("utf-8")
        toml = toml.replace("name-a-server.invalid:80", f"127.0.0.1:{self.port}")
        toml += '\n[admin]\naddress = "off"\n\n[server]\nthreads = 1\n'
        write(self.path("gateway.toml"), toml)
        self.log(toml)
        if "[origin.files]" in toml:
            write(self.path("files.conf"), file_server(self.directory, text, self.port))
        return True

    def start(self):
        if os.path.exists(self.path("files.conf")):
            self.files = subprocess.Popen([NGINX, "-c", self.path("files.conf"), "-e", self.path("files.log")])
        with open(self.path("error.log"), "ab") as log:
            self.gateway = subprocess.Popen(
                [GATEWAY, "run", "--config", self.path("gateway.toml")], stderr=log, stdout=log
            )
        with open(self.path("gateway.toml"), encoding="utf-8") as file:
            addresses = re.findall(r'(?m)^address = "([^"]+):(\d+)"', file.read())
        end = time.monotonic() + 20
        for host, port in addresses:
            while time.monotonic() < end and self.gateway.poll() is None:
                host = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}.get(host, host.strip("[]"))
                try:
                    socket.create_connection((host, int(port)), 1).close()
                    break
                except OSError:
                    time.sleep(0.02)
        return self.gateway.poll() is None

    def reload(self, *_):
        if self.translate():
            self.gateway.send_signal(signal.SIGHUP)

    def stop(self, *_):
        for process in (self.gateway, self.files):
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)

    def path(self, name):
        return os.path.join(self.directory, name)

    def log(self, text):
        if "SHIM_LOG" in os.environ:
            with open(os.environ["SHIM_LOG"], "a", encoding="utf-8") as file:
                file.write(text)


def option(arguments, flag, default):
    return arguments[arguments.index(flag) + 1] if flag in arguments else default


def main():
    arguments = sys.argv[1:]
    if "-V" in arguments or "-v" in arguments:
        sys.stderr.write(MODULES)
        return 0
    stand_in = StandIn(option(arguments, "-p", "."), option(arguments, "-c", "nginx.conf"))
    write(stand_in.path("error.log"), "")
    if "-t" in arguments or "-T" in arguments:
        return 0 if stand_in.translate() else 1
    # The signals are taken before the pid is there.
    signal.signal(signal.SIGHUP, stand_in.reload)
    for number in (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stand_in.stop)
    if not stand_in.translate() or not stand_in.start():
        stand_in.stop()
        return 1
    write(stand_in.path("nginx.pid"), f"{os.getpid()}\n")
    stand_in.gateway.wait()
    stand_in.stop()
    if stand_in.files:
        stand_in.files.wait()
    return 0


sys.exit(main())

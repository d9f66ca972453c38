# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clients of `serve` and of Prometheus: ordinary, idle and hostile ones.

scrape.py metrics FILE            keeps the text of /metrics
scrape.py query DIRECTORY NAME... keeps what Prometheus has stored of these metrics, in NAME.json
scrape.py scraped                 waits until Prometheus has scraped twice from now on
scrape.py held DISK FILE           keeps /metrics while the kernel has four commands in flight; says when
                                  it looks
scrape.py hostile FILE            holds idle connections and sends garbage; /metrics must be served
"""

import http.client
import json
import os
import socket
import sys
import time
import urllib.parse

SERVE = ("127.0.0.1", 9998)
PROMETHEUS = ("127.0.0.1", 9090)


def get(address, path):
    connection = http.client.HTTPConnection(*address, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    if response.status != 200:
        raise SystemExit(f"{path}: {response.status} {body}")
    return body


def query(expression):
    path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    return get(PROMETHEUS, path)


def scraped():
    """The time at which Prometheus last stored a value of the tool, or 0."""
    try:
        found = json.loads(query("timestamp(nvme_deep_build_info)"))["data"]["result"]
    except (OSError, http.client.HTTPException, SystemExit):
        return 0.0
    return float(found[0]["value"][1]) if found else 0.0


def wait_for_scrapes():
    begin = time.time()
    for _ in range(2):
        end = time.time() + 60
        while scraped() <= begin:
            if time.time() > end:
                raise SystemExit("Prometheus does not scrape")
            time.sleep(0.2)
        # what the tool returns is up to a second old
        begin = max(time.time(), begin) + 1


def held(disk, file):
    def in_flight():
        with open(f"/sys/block/{disk}/inflight", encoding="ascii") as numbers:
            return numbers.read().split()

    print("looking", flush=True)
    end = time.time() + 60
    while in_flight() != ["4", "0"]:
        if time.time() > end:
            raise SystemExit("never four commands in flight")
        time.sleep(0.01)
    time.sleep(1.05)  # what the tool returns is up to a second old
    text = get(SERVE, "/metrics")
    if in_flight() != ["4", "0"]:
        raise SystemExit("the commands ended too early")
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)


def hostile(file):
    idle = [socket.create_connection(SERVE) for _ in range(40)]
    for n, client in enumerate(idle):
        try:
            client.send((b"GET /metrics HTTP/1.1\r\n", b"", b"\x16\x03\x01")[n % 3])
        except OSError:
            pass  # closed by the tool: another one came
    for _ in range(20):
        with socket.create_connection(SERVE) as client:
            try:
                client.sendall(os.urandom(20000))
            except OSError:
                pass
    with open(file, "w", encoding="utf-8") as out:
        out.write(get(SERVE, "/metrics"))
    for client in idle:
        client.close()


def main():
    what, *arguments = sys.argv[1:]
    if what == "metrics":
        with open(arguments[0], "w", encoding="utf-8") as out:
            out.write(get(SERVE, "/metrics"))
    elif what == "query":
        for name in arguments[1:]:
            with open(f"{arguments[0]}/{name}.json", "w", encoding="utf-8") as out:
                out.write(query(f"nvme_deep_{name}"))
    elif what == "held":
        held(*arguments)
    elif what == "scraped":
        wait_for_scrapes()
    else:
        hostile(arguments[0])


main()

"""A client of gRPC that resolves names by xDS, and the servers that it balances over.

Arguments: the port of the servers, then their addresses. Each server answers with its own address. Lines of JSON come in and go
out: {"call": NAME, "times": N} is answered with who answered how often and what failed; {"stop": ADDRESS} and
{"start": ADDRESS} end a server and begin it again, and are answered with the address.
"""

import collections
import concurrent.futures
import json
import sys

import grpc

METHOD = "/test.Echo/Who"
TIMEOUT_SECONDS = 30


class Who(grpc.GenericRpcHandler):
    """Answers every method with the server's own address."""

    def __init__(self, address):
        self.address = address.encode()

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.address)


def serve(port, address):
    pool = concurrent.futures.ThreadPoolExecutor(2)
    server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((Who(address),))
    server.add_insecure_port(f"{address}:{port}")
    server.start()
    return server


def call(channel, times):
    answered, failed = collections.Counter(), []
    who = channel.unary_unary(METHOD)
    for _ in range(times):
        try:
            answered[who(b"", timeout=TIMEOUT_SECONDS).decode()] += 1
        except grpc.RpcError as error:
            failed.append(f"{error.code().name}: {error.details()}")
    return {"answered": answered, "failed": failed}


def main():
    port, *addresses = sys.argv[1:]
    servers = {address: serve(port, address) for address in addresses}
    channels = {}
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "stop" in asked:
            servers.pop(asked["stop"]).stop(None).wait()
            answer = asked["stop"]
        elif "start" in asked:
            servers[asked["start"]] = serve(port, asked["start"])
            answer = asked["start"]
        else:
            name = asked["call"]
            if name not in channels:
                target = name if name.startswith("xds:") else f"xds:///{name}"
                channels[name] = grpc.insecure_channel(target)
            answer = call(channels[name], asked["times"])
        print(json.dumps(answer), flush=True)
    for server in servers.values():
        server.stop(None)


if __name__ == "__main__":
    main()

"""A client of gRPC that resolves names by xDS, and the servers that it balances over.

Arguments: the port of the servers, then their addresses. Each server answers with its own address. Lines of JSON come in and go
out: {"call": NAME, "times": N} is answered with who answered how often and what failed.
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


def serve(port, addresses):
    servers = []
    for address in addresses:
        pool = concurrent.futures.ThreadPoolExecutor(2)
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((Who(address),))
        server.add_insecure_port(f"{address}:{port}")
        server.start()
        servers.append(server)
    return servers


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
    servers = serve(sys.argv[1], sys.argv[2:])
    channels = {}
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["call"]
        if name not in channels:
            channels[name] = grpc.insecure_channel(f"xds:///{name}")
        print(json.dumps(call(channels[name], asked["times"])), flush=True)
    for server in servers:
        server.stop(None)


if __name__ == "__main__":
    main()

"""A client of Linkerd's destination API in Python, on grpcio and code generated from Linkerd's published .proto files.

It shares nothing with the product or with the other client of the tests, so what both make of an answer was said by the answer.

Standard input has one command a line, until it ends:

    {"open": ID, "address": "127.0.0.1:8086", "method": "Get" | "GetProfile", "authority": "…", "token": "…"}
    {"close": ID}

Standard output has a line whenever what a stream has said comes to something else, and a last one when the stream is over:

    {"id": ID, "addresses": {"10.0.0.1:80": {…}}}   each with all that was said of it, and with its labels as they are in effect;
                                                    "no_endpoints" too, if that was the last message
    {"id": ID, "profile": {…}}                      the latest
    {"id": ID, "status": 5, "message": "…"}         the end
    {"id": ID, "breach": "…"}                       the end too: the server has broken a rule of the protocol

Messages are in the JSON form of protocol buffers, with the names of the .proto files, and without fields that are not set.
"""

import asyncio
import ipaddress
import json
import sys

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.unknown_fields import UnknownFieldSet

import destination_pb2
import destination_pb2_grpc

# Connections are made to where the test says and nowhere else, and tried again without long pauses.
CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class Breach(Exception):
    """A message that a client cannot make sense of."""


def say(line):
    """Writes one line for whoever runs this."""
    print(json.dumps(line, sort_keys=True), flush=True)


def as_json(message):
    return MessageToDict(message, preserving_proto_field_name=True)


def socket(address):
    """The text of a `TcpAddress`."""
    if not 0 < address.port < 65536:
        raise Breach(f"port {address.port}")
    family = address.ip.WhichOneof("ip")
    if family == "ipv4":
        return f"{ipaddress.IPv4Address(address.ip.ipv4)}:{address.port}"
    if family == "ipv6":
        ip = address.ip.ipv6
        return f"[{ipaddress.IPv6Address(ip.first << 64 | ip.last)}]:{address.port}"
    raise Breach("an address without an IP")


def refuse_unknown_fields(message):
    """A server that speaks this version of the protocol sends nothing that it does not have."""
    for field in UnknownFieldSet(message):
        raise Breach(f"field {field.field_number} of {message.DESCRIPTOR.full_name}, which has no such field")
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for part in value if descriptor.is_repeated else [value]:
            refuse_unknown_fields(part)


class Endpoints:
    """What the messages of one `Get` stream come to."""

    def __init__(self):
        self.by_address = {}
        self.no_endpoints = None
        self.began = False

    def fold(self, update):
        """Takes in one `Update`."""
        kind = update.WhichOneof("update")
        if kind == "add":
            self.add(update.add)
        elif kind == "remove":
            self.remove(update.remove)
        elif kind == "no_endpoints":
            self.by_address.clear()
            self.no_endpoints = {"exists": update.no_endpoints.exists}
        else:
            raise Breach("an update that says nothing")
        self.began = True

    def add(self, weighted):
        if not weighted.addrs:
            raise Breach("an add without addresses")
        self.no_endpoints = None
        for address in weighted.addrs:
            content = as_json(address)
            content.pop("addr", None)
            own = content.pop("metric_labels", {})
            content["labels"] = {**weighted.metric_labels, **own}
            self.by_address[socket(address.addr)] = content

    def remove(self, removed):
        if not self.began:
            raise Breach("a stream that begins with a remove")
        if not removed.addrs:
            raise Breach("a remove without addresses")
        for address in removed.addrs:
            if self.by_address.pop(socket(address), None) is None:
                raise Breach(f"a remove of {socket(address)}, which was not there")

    def told(self):
        told = {"addresses": self.by_address}
        if self.no_endpoints is not None:
            told["no_endpoints"] = self.no_endpoints
        return told


class Profile:
    """What the messages of one `GetProfile` stream come to: the last one."""

    def __init__(self):
        self.latest = None

    def fold(self, profile):
        """Takes in one `DestinationProfile`."""
        latest = as_json(profile)
        if profile.HasField("endpoint"):
            latest["endpoint"]["addr"] = socket(profile.endpoint.addr)
        self.latest = latest

    def told(self):
        return {"profile": self.latest}


METHODS = {"Get": Endpoints, "GetProfile": Profile}


async def read(command):
    """Reads one stream to its end."""
    question = destination_pb2.GetDestination(path=command["authority"], context_token=command["token"])
    state = METHODS[command["method"]]()
    end = {"status": grpc.StatusCode.OK.value[0], "message": ""}
    async with grpc.aio.insecure_channel(command["address"], options=CHANNEL_OPTIONS) as channel:
        call = getattr(destination_pb2_grpc.DestinationStub(channel), command["method"])
        try:
            async for message in call(question):
                refuse_unknown_fields(message)
                state.fold(message)
                say({"id": command["open"], **state.told()})
        except grpc.aio.AioRpcError as error:
            end = {"status": error.code().value[0], "message": error.details()}
        except Breach as breach:
            end = {"breach": str(breach)}
    say({"id": command["open"], **end})


async def obey(ended):
    """Follows the commands of standard input until it ends; `ended` is called with the task of each stream that is over."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    streams = {}
    async for line in lines:
        command = json.loads(line)
        if "close" in command:
            streams.pop(command["close"]).cancel()
        else:
            stream = asyncio.create_task(read(command))
            stream.add_done_callback(ended)
            streams[command["open"]] = stream


async def main():
    # A program that went on after an error of its own would look like a server that has nothing more to say.
    failed = asyncio.get_running_loop().create_future()

    def ended(task):
        if not task.cancelled() and task.exception() and not failed.done():
            failed.set_exception(task.exception())

    obeying = asyncio.create_task(obey(ended))
    for done in (await asyncio.wait((obeying, failed), return_when=asyncio.FIRST_COMPLETED))[0]:
        done.result()


if __name__ == "__main__":
    asyncio.run(main())

"""A client of Linkerd's destination API in Python, on grpcio and code generated from Linkerd's published .proto files.

It shares nothing with the product or with the other client of the tests, so what both make of an answer was said by the answer.
Like a proxy it folds the messages of a stream into a state, and asks again when a stream ends.

Standard input has one command a line, until it ends:

    {"open": ID, "address": "127.0.0.1:8086", "method": "Get" | "GetProfile", "authority": "…", "token": "…"}
    {"close": ID}

Standard output has one line for each new answer, and for each breach of the protocol:

    {"id": ID, "answer": {"silent": true}}                     nothing has come
    {"id": ID, "answer": {"error": {"code": "NOT_FOUND"}}}     and nothing better is known
    {"id": ID, "answer": {"addresses": {"10.0.0.1:80": {…}}}}  each with all that was said of it, and labels as they are in effect;
                                                               "no_endpoints" with them, if that was the last message
    {"id": ID, "answer": {"profile": {…}}}                     the latest
    {"id": ID, "breach": "…"}

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

# Between the end of a stream and the next try.
RETRY_DELAY_SECONDS = 0.2

# How long a new stream may take to say something before the error that the one before ended with is history.
PATIENCE_SECONDS = 1.0

# What such a status says of a name stays true, so that whatever was known of it is void.
TERMINAL = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)

# Connections are made to where the test says and nowhere else, and tried again without long pauses.
CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)

SILENT = {"silent": True}


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

    def holds(self):
        """Whether there is anything to lose."""
        return bool(self.by_address)

    def answer(self):
        answer = {"addresses": dict(self.by_address)}
        if self.no_endpoints is not None:
            answer["no_endpoints"] = self.no_endpoints
        return answer


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

    def holds(self):
        return True

    def answer(self):
        return {"profile": self.latest}


METHODS = {"Get": Endpoints, "GetProfile": Profile}


class Subscription:
    """A question that is asked again and again, and what the answers have come to."""

    def __init__(self, channel, command):
        self.id = command["open"]
        self.method = command["method"]
        self.call = getattr(destination_pb2_grpc.DestinationStub(channel), self.method)
        self.question = destination_pb2.GetDestination(path=command["authority"], context_token=command["token"])
        self.known = None
        self.error = None
        self.said = None
        self.tell()

    async def run(self):
        """Asks for ever."""
        while True:
            try:
                status = await self.ask()
            except Breach as breach:
                say({"id": self.id, "breach": str(breach)})
                return
            self.end(status)
            await asyncio.sleep(RETRY_DELAY_SECONDS)

    async def ask(self):
        """Reads one stream to its end, and returns its status."""
        state, began = METHODS[self.method](), False
        silence = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self.forgive)
        try:
            async for message in self.call(self.question):
                silence.cancel()
                refuse_unknown_fields(message)
                state.fold(message)
                # What was known until now counts until the first message of a new stream, and no longer.
                self.known, self.error = state, None
                self.tell()
            return grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            return error.code()
        finally:
            silence.cancel()

    def forgive(self):
        self.error = None
        self.tell()

    def end(self, status):
        """Takes in how a stream ended."""
        if status in TERMINAL:
            self.known = None
        if status is not grpc.StatusCode.OK and not (self.known and self.known.holds()):
            self.known, self.error = None, status
        self.tell()

    def tell(self):
        """Says what is known, if it is not what was said last."""
        if self.error is not None:
            answer = {"error": {"code": self.error.name}}
        elif self.known is not None:
            answer = self.known.answer()
        else:
            answer = SILENT
        if answer != self.said:
            self.said = answer
            say({"id": self.id, "answer": answer})


async def obey(ended):
    """Follows the commands of standard input until it ends; `ended` is told of each stream that does not run any more."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    channels, tasks = {}, {}
    async for line in lines:
        command = json.loads(line)
        if "close" in command:
            tasks.pop(command["close"]).cancel()
            continue
        address = command["address"]
        if address not in channels:
            channels[address] = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
        task = asyncio.create_task(Subscription(channels[address], command).run())
        task.add_done_callback(ended)
        tasks[command["open"]] = task


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

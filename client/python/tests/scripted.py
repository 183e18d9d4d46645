"""Nodes that do with each call what a script says, and remember what they were sent."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from helve._wire import messages as wire

#: What a node does with a mint or a get. A reason refuses it.
ANSWER, BREAK, HANG = "answer", "break", "hang"
#: The name of a listed handle whose value is no JSON.
UNREAD = "unread"


#: Bound sockets that never listen. They keep their ports from other processes.
_gone = []


def gone():
    """The address of a port where no process listens, now or later."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    _gone.append(taken)
    return f"127.0.0.1:{taken.getsockname()[1]}"


def refusal(reason, metadata=None, pause=0.0):
    """The trailing metadata of a refusal."""
    status = wire.Status(code=9, message="scripted")
    info = wire.ErrorInfo(reason=reason, domain="helve.v1", metadata=metadata or {})
    prefix = "type.googleapis.com/google.rpc."
    status.details.add(type_url=f"{prefix}ErrorInfo", value=info.SerializeToString())
    if pause:
        delay = wire.Delay(seconds=int(pause), nanos=int(pause % 1 * 1e9))
        retry = wire.RetryInfo(retry_delay=delay)
        status.details.add(type_url=f"{prefix}RetryInfo", value=retry.SerializeToString())
    return (("grpc-status-details-bin", status.SerializeToString()),)


class Mute:
    """What says OK to each call of gRPC, and has no message: no node does."""

    #: Headers that end a stream, in HPACK: of HTTP 200, gRPC, and a status of gRPC.
    OVER = b"\x88" + b"".join(
        b"\0%c%b%c%b" % (len(name), name, len(value), value)
        for name, value in ((b"content-type", b"application/grpc"), (b"grpc-status", b"0"))
    )

    def __init__(self):
        self.calls = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as reader:
            connection.sendall(frame(4))
            reader.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            while head := reader.read(9):
                kind, flags, stream = head[3], head[4], head[5:]
                reader.read(int.from_bytes(head[:3], "big"))
                if kind == 1:
                    self.calls += 1
                    connection.sendall(frame(1, 5, stream, self.OVER))
                elif kind in (4, 6) and not flags & 1:
                    connection.sendall(frame(kind, 1, body=bytes(8) if kind == 6 else b""))


def frame(kind, flags=0, stream=bytes(4), body=b""):
    """A frame of HTTP/2."""
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream + body


def part(revision, *places, cluster_id=""):
    """A part of a watch: puts at these places, each a revision and an ordinal."""
    reply = wire.WatchReply(revision=revision, cluster_id=cluster_id)
    for at, ordinal in places:
        info = wire.RecordInfo(name=f"{at}.{ordinal}", revision=at)
        reply.changes.add(kind=wire.CHANGE_KIND_PUT, ordinal=ordinal, info=info)
    return reply


class Node:
    """A node with a script: steps that are left out hang."""

    def __init__(self, *steps, leader="", parts=(), watches=()):
        self.steps = list(steps)
        self.leader = leader
        #: Of each watch its parts, or steps. Behind them it hangs.
        self.watches = list(watches)
        self.watched = []
        #: Of each watch, whether it has ended.
        self.ends = []
        #: Parts of the list of all handles: names, or a step.
        self.parts = parts
        self.identities = []
        self.tokens = []
        #: The `traceparent` of each mint, get and watch, or None.
        self.spans = []
        self.lists = 0
        self.over = threading.Event()
        # A node bears the pings of its callers.
        options = [("grpc.http2.max_ping_strikes", 0)]
        self.server = grpc.server(ThreadPoolExecutor(16), options=options)
        self.server.add_generic_rpc_handlers((_Handlers(self),))
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.stop(0)

    def step(self, context, reply):
        step = self.steps.pop(0) if self.steps else HANG
        return self.do(step, context, reply)

    def do(self, step, context, reply):
        pause, metadata = 0.0, None
        if isinstance(step, tuple):
            step, more = step
            pause, metadata = (0.0, more) if isinstance(more, dict) else (more, None)
        if step == ANSWER:
            return reply
        if step == "SLOW":
            self.over.wait(pause)
            return reply
        if step == HANG:
            self.over.wait(60)
        elif step != BREAK:
            context.set_trailing_metadata(refusal(step, metadata, pause))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "scripted")
        return context.abort(grpc.StatusCode.UNAVAILABLE, "broken pipe")

    def header(self):
        return wire.ReplyHeader(index=7, clock_ms=1, leader_hint=self.leader)

    def open_session(self, request, context):
        return wire.OpenSessionReply(header=self.header(), window_calls_max=64)

    def mint(self, request, context):
        self.identities.append(request.identity)
        self.tokens.append(dict(context.invocation_metadata()).get("authorization"))
        self.spans.append(dict(context.invocation_metadata()).get("traceparent"))
        info = wire.RecordInfo(name="minted")
        return self.step(context, wire.MintReply(header=self.header(), info=info))

    def get(self, request, context):
        self.spans.append(dict(context.invocation_metadata()).get("traceparent"))
        reply = wire.GetReply(header=self.header(), status=wire.HANDLE_STATUS_LIVE, value=b"1")
        reply.info.name = request.id
        return self.step(context, reply)

    def put(self, request, context):
        return self.do(HANG, context, None)

    def claim(self, request, context):
        return self.do(HANG, context, None)

    def delete(self, request, context):
        return self.do(HANG, context, None)

    def exists(self, request, context):
        return wire.ExistsReply(header=self.header())

    def list(self, request, context):
        self.lists += 1
        for part in self.parts:
            if isinstance(part, str):
                self.do(part, context, None)
            handles = [
                wire.ListedHandle(
                    info=wire.RecordInfo(name=name), value=b"{" if name == UNREAD else b"1"
                )
                for name in part
            ]
            yield wire.ListReply(header=self.header(), handles=handles)

    def watch(self, request, context):
        end = threading.Event()
        context.add_callback(end.set)
        self.spans.append(dict(context.invocation_metadata()).get("traceparent"))
        self.watched.append(request)
        self.ends.append(end)
        for each in self.watches.pop(0) if self.watches else ():
            if isinstance(each, wire.WatchReply):
                yield each
            else:
                self.do(each, context, None)
        end.wait(60)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, node):
        self.methods = {
            "/helve.v1.CallService/OpenSession": (wire.OpenSessionRequest, node.open_session),
            "/helve.v1.HandleService/Mint": (wire.MintRequest, node.mint),
            "/helve.v1.HandleService/Get": (wire.GetRequest, node.get),
            "/helve.v1.HandleService/Put": (wire.PutRequest, node.put),
            "/helve.v1.HandleService/Claim": (wire.ClaimRequest, node.claim),
            "/helve.v1.HandleService/Delete": (wire.DeleteRequest, node.delete),
            "/helve.v1.StateService/Exists": (wire.ExistsRequest, node.exists),
            "/helve.v1.HandleService/List": (wire.ListRequest, node.list),
            "/helve.v1.WatchService/Watch": (wire.WatchRequest, node.watch),
        }

    def service(self, details):
        found = self.methods.get(details.method)
        if found is None:
            return None
        request, method = found
        handler = (
            grpc.unary_stream_rpc_method_handler
            if details.method.endswith(("/List", "/Watch"))
            else grpc.unary_unary_rpc_method_handler
        )
        return handler(
            method,
            request_deserializer=request.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )

"""The server: what the protocol's messages ask for, answered by the tools."""

from __future__ import annotations

import argparse
import asyncio
import traceback
import warnings
from collections.abc import Awaitable
from typing import Any, TypeVar

import anyio
import jsonschema
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from drygrad.cli.errors import Failure, complain
from drygrad.cli.terminal import plain
from drygrad.version import __version__

from .places import Places
from .progress import telling
from .tools import TOOLS, Answer, Tool
from .work import Work

T = TypeVar("T")
Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = """\
drygrad finds faults of PyTorch code before a job is launched.
`check` what you have edited; `run` the function or script before anybody launches it; `explain` a new code.
A verified fix has been tried in a run: prefer it to one of your own.
An outcome other than "passed" or "failed" says nothing against the code: read its reason.
Where a run has guessed its inputs, give `inputs` of your own before you believe it."""


async def serve(arguments: argparse.Namespace) -> None:
    """Serve one client on stdin and stdout until it leaves; what else is printed goes to stderr."""
    session = Session(arguments)
    server = session.server()
    try:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
    finally:
        await session.close()


class Session:
    """One client's session: the workers that it has started, the folders that it may look at."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._places = Places(arguments.folders)
        self._work = Work(self._places, arguments)
        self._tools = {tool.name: tool for tool in TOOLS}
        self._has_asked = False

    def server(self) -> Server[Any]:
        """Return what answers the client's messages."""
        return Server(
            "drygrad",
            version=__version__,
            title="drygrad",
            instructions=INSTRUCTIONS,
            on_list_tools=self.tools,
            on_call_tool=self.call,
        )

    async def close(self) -> None:
        """End what it has started."""
        await self._work.close()

    async def tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools."""
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS])

    async def call(self, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        """Do the work of a tool; what is wrong with the call or the code is for the model to read."""
        tool = self._tools.get(asked.name)
        if tool is None:
            return _wrong(f"there is no tool `{asked.name}`; there are {', '.join(self._tools)}")
        given = asked.arguments or {}
        try:
            jsonschema.validate(given, tool.inputs)
            await self._ask_for_roots(context)
            async with telling(context.session.report_progress) as progress:
                answer: Answer = await _ended_with_its_caller(tool.work(self._work, given, progress))
        except jsonschema.ValidationError as error:
            return _wrong(f"{'.'.join(map(str, error.path)) or asked.name}: {error.message}")
        except Failure as failure:
            return _wrong(str(failure))
        except Exception as error:  # noqa: BLE001 - a bug of ours in one call must not end the session
            complain(traceback.format_exc())
            return _wrong(f"internal error, please report it: {type(error).__name__}: {error}")
        return types.CallToolResult(content=[_text(answer.text)], structured_content=answer.data)

    async def _ask_for_roots(self, context: Context) -> None:
        """Learn the client's folders, once, where it has any and the protocol still lets a server ask."""
        capabilities = context.session.client_capabilities
        if self._has_asked or not self._places.asks_the_client or capabilities is None or capabilities.roots is None:
            return
        self._has_asked = True
        if context.session.can_send_request:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # newer clients have no roots, and are not asked
                told = await context.session.list_roots()  # pyright: ignore[reportDeprecated]
            self._places.told([str(root.uri) for root in told.roots])


async def _ended_with_its_caller(work: Awaitable[T]) -> T:
    """Return what work returns; where the client cancels, let it end its runs before its caller goes."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes,
        destructive_hint=tool.writes,
        idempotent_hint=True,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.inputs),
        output_schema=dict(tool.output),
        annotations=hints,
    )


def _wrong(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(plain(message))], is_error=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)

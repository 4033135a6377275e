"""`weft serve`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import common

NEEDED = ("starlette", "uvicorn", "httptools", "prometheus_client", "python_multipart")


def serve(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Run folders; NAME=RUN gives a run another name.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 chooses a free one.", min=0, max=65535, metavar="N")] = 8000,
    workers: Annotated[
        int, typer.Option(help="The number of processes; each loads the runs.", min=1, max=256, metavar="N")
    ] = 1,
    key_file: Annotated[
        Path | None,
        typer.Option(help="A file of keys, one on each line; clients must send one of them.", metavar="FILE"),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="The engine to predict with; auto uses CTranslate2 for runs exported in float32, otherwise torch.",
            metavar="auto|torch|ctranslate2",
            show_default="auto",
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="An origin whose web pages may use the server; can be repeated.", metavar="ORIGIN"),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log inputs and outputs, too.")] = False,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.", metavar="FILE")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, such as limits.items=100; can be repeated.", metavar="KEY=VALUE"),
    ] = None,
) -> None:
    """Answer requests over HTTP, and show a page to try the runs in a browser.

    The page is at /, and the documentation of the interface is at /docs: POST /predict works for any run, and clients
    of LibreTranslate, KServe and Triton (Open Inference Protocol) are supported. Requests are processed in
    batches. The limits.* settings cap the size, duration and number of requests. After SIGTERM, the server completes
    running requests and ends; after SIGHUP, it loads the runs again.

    [bold]Examples[/]
      weft serve my-run
      weft serve en-de=translator labels=classifier --port 8080 --key-file keys.txt
      weft serve my-run --workers 2 --set limits.seconds=10 --set limits.items=100
    """
    _check_installed()
    from weft.serve import access
    from weft.serve.lifecycle import Order, address_of, listen, run
    from weft.serve.served import named_runs
    from weft.serve.service import check_runs
    from weft.serve.settings import read_keys, read_settings
    from weft.settings import merge, read_file, read_overrides

    flags: dict[str, Any] = {"engine": engine, "cors": cors or None, "log_texts": log_texts or None}
    given = {name: value for name, value in flags.items() if value is not None}
    file = {} if config is None else read_file(config)
    settings = read_settings(file, merge(read_overrides(set_ or []), given))
    named = named_runs(runs)
    check_runs(named)
    if key_file is not None:
        read_keys(key_file)
    order = Order(named, settings, host, key_file, common.strict())
    listening = listen(host, port)
    access.to_stderr()
    address = address_of(listening)
    common.complain(f"{', '.join(named)} at {address} (stop with Ctrl-C)", label="serving")
    if host not in ("127.0.0.1", "localhost", "::1") and key_file is None:
        common.complain("every machine that reaches this one can use the server; --key-file restricts it", label="note")
    if workers == 1:
        run(order, listening)
    else:
        from weft.serve.supervisor import Supervisor

        Supervisor(order, listening, workers).run()


def _check_installed() -> None:
    from importlib.util import find_spec

    from weft.core.errors import UserError

    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        what = f"weft serve needs packages that are not installed: {', '.join(missing)}"
        raise UserError(what, "the Python packages", "pip install 'weft[serve]'")

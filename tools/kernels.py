"""Kernels that have loaded beforehand what chapters load: each is forked from one process that has.

    python tools/kernels.py COMMAND ...

runs a command whose notebooks get such kernels, in a workplace. To begin, with numpy, torch and matplotlib,
takes a kernel two seconds; forked it takes a third of one. It has modules and names of its own, as any other.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

LOADED = (
    *("ipykernel.debugger", "ipykernel.kernelapp", "ipywidgets", "PIL.JpegImagePlugin"),
    *(f"iclbook.{room}" for room in ("chapter", "data", "explorers", "measure", "plot")),
    *(
        f"iclcore.{room}"
        for room in ("engines.autograd", "heads.full_model", "stability", "published", "theory")
    ),
    "matplotlib_inline.backend_inline",
)
AS_IN_A_KERNEL = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else a debugger warns while it is loaded
}
MANY = 3  # for fewer it takes longer to load all than what they load


@contextmanager
def forked(folder: Path, environment: dict, kernels: int = MANY) -> Iterator[dict]:
    """The environment in which Jupyter begins so many kernels while this lasts: forked where they are many,
    and where that is safe. On macOS it is not, and Windows has none."""
    if kernels < MANY or sys.platform != "linux":
        yield environment
        return
    place = folder / "jupyter" / "kernels" / "python3" / "kernel.json"
    place.parent.mkdir(parents=True)
    ask = [sys.executable, "-IS", __file__, "--ask", str(folder), "-f", "{connection_file}"]
    spec = {"argv": ask, "display_name": "Python 3", "language": "python"}
    place.write_text(json.dumps(spec | {"interrupt_mode": "message"}), encoding="utf-8")
    with socket.socket(socket.AF_UNIX) as listener:
        in_folder(folder, listener.bind)
        listener.listen(kernels)  # from here on who asks waits until all is loaded
        number = listener.fileno()
        serve = [sys.executable, __file__, "--serve", str(number)]
        loaded = environment | AS_IN_A_KERNEL
        server = subprocess.Popen(serve, env=loaded, pass_fds=[number], start_new_session=True)
    try:
        yield environment | {"JUPYTER_PATH": str(folder / "jupyter")}
    finally:
        server.kill()
        server.wait()


def in_folder(folder: Path | str, do: Callable[[str], object]) -> None:
    """With the socket's path: in full it could have more than the hundred letters that a socket takes."""
    here = os.open(folder, os.O_RDONLY)
    do(f"/proc/self/fd/{here}/kernels")
    os.close(here)


def ask(folder: str, arguments: list[str]) -> None:
    """What Jupyter starts for a kernel: it asks for one, and neither outlives the other."""
    asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as kernel:
        in_folder(folder, kernel.connect)
        socket.send_fds(kernel, [json.dumps(asked).encode()], [0, 1, 2])
        kernel.recv(1)


def serve(listener: socket.socket) -> None:
    """Load all, then fork whenever a kernel is asked for. No thread may run here: none comes along."""
    del sys.path[0]  # of the tools, which a chapter has not
    for name in LOADED:
        with suppress(Exception):  # the chapter that needs it says so, where it does
            import_module(name)
    import_module("numba").njit(lambda: 0)()  # half of numba is loaded by the first compilation
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = listener.accept()
        asked, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)
        if os.fork() == 0:
            break
        for each in (client.detach(), *streams):
            os.close(each)
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    become(client, streams, **json.loads(asked))


def become(
    client: socket.socket, streams: list[int], arguments: list[str], folder: str, environment: dict
) -> None:
    """A kernel, as long as who asked for it."""
    from threading import Thread

    from ipykernel.kernelapp import IPKernelApp

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    Thread(target=lambda: (client.recv(1), os._exit(1)), daemon=True).start()
    sys.argv[1:] = arguments
    IPKernelApp.launch_instance(parent_handle=os.getppid())
    os._exit(0)  # to take apart all that is loaded takes a second


def main(words: list[str]) -> None:
    match words:
        case ["--ask", folder, *arguments]:
            ask(folder, arguments)
        case ["--serve", number]:
            serve(socket.socket(fileno=int(number)))
        case command:
            if hasattr(os, "nice"):
                os.nice(5)  # the pages are built meanwhile, and somebody waits for them
            from workplace import run, stoppable

            with stoppable("the command did not finish"):
                sys.exit(run(command, inside=forked))


if __name__ == "__main__":
    main(sys.argv[1:])

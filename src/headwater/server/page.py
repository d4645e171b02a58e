"""The page: the files of `page/`, as they are, and what is told of every path that no route has."""

import gzip
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headwater.errors import NotFound

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# What gzip makes a third of.
SMALLER = (".html", ".js", ".mjs", ".css", ".svg", ".json")


@router.api_route("/{path:path}", methods=[*METHODS, "OPTIONS"])
def page(request: Request, path: str) -> Response:
    """A file of the page; 405 for a path that a route has for another method, else 404."""
    wanted = path or "index.html"
    # Only names that are there are looked for: no path of the caller's reaches the file system.
    found = {file.relative_to(FOLDER).as_posix(): file for file in FOLDER.rglob("*") if file.is_file()}.get(wanted)
    if found is not None and found.suffix not in TYPES:
        found = None
    if found is None or request.method != "GET":
        methods = _methods(request) if found is None else ["GET"]
        if not methods:
            raise NotFound(f"there is nothing at {'/' + path!r}; /docs lists the routes")
        allowed = [*methods, "HEAD"] if "GET" in methods else methods
        raise HTTPException(
            405,
            f"{'/' + path!r} is not for {request.method}, but for {', '.join(methods)}; /docs lists the routes",
            headers={"Allow": ", ".join(allowed)},
        )
    told = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding", "ETag": _mark(found)}
    if request.headers.get("if-none-match") == told["ETag"]:
        return Response(status_code=304, headers=told)
    if found.suffix in SMALLER and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            _packed(found, _mark(found)), media_type=TYPES[found.suffix], headers={**told, "Content-Encoding": "gzip"}
        )
    return FileResponse(found, media_type=TYPES[found.suffix], headers=told)


def _methods(request: Request) -> list[str]:
    """Those that other routes have this path for; that of the page is the last of all."""
    others = request.app.routes[:-1]
    asked = ({**request.scope, "method": method} for method in METHODS)
    return [one["method"] for one in asked if any(route.matches(one)[0] == Match.FULL for route in others)]


def _mark(file: Path) -> str:
    """Another one for every version of a file."""
    stat = file.stat()
    return f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'


@lru_cache(maxsize=128)
def _packed(file: Path, mark: str) -> bytes:
    return gzip.compress(file.read_bytes())

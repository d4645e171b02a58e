# syntax=docker/dockerfile:1
# docker build -t headwater .        docs/operations.md says how to run it. No key and no document is in the image.

FROM python:3.12-slim AS build
WORKDIR /build
# For native/*.c; without a compiler the image would do the same in Python, more slowly.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
COPY pyproject.toml constraints.txt hatch_build.py README.md LICENSE NOTICE ./
COPY native ./native
COPY src ./src
RUN python -m venv /opt/headwater
# More of them, with commas: `milvus` for vectors in a Milvus server, and the others that pyproject.toml names.
ARG EXTRAS=mcp
RUN HEADWATER_NATIVE=1 /opt/headwater/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[$EXTRAS]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin headwater
RUN install --directory --owner=headwater --group=headwater --mode=0700 /data
COPY --from=build /opt/headwater /opt/headwater
ENV PATH=/opt/headwater/bin:$PATH \
    HEADWATER_HOME=/data \
    PORT=8571 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number, so that whoever runs it can tell that it is not root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8571
# The server ends the pass of its worker before it exits.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['PORT'] + '/healthz', timeout=4)"]
ENTRYPOINT ["headwater"]
# Reachable from outside the container, so it starts only when the home has a key: headwater key create.
# On the port that PORT says.
CMD ["serve", "--host", "0.0.0.0"]

# The manager's image. Nothing of the build stays in it: Python, the locked dependencies and Usher.
#   docker build -t usher:0.1.0 .
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
ARG UV=0.13.7
# The last of these has the engine compiled, for which there must be a compiler.
ENV UV_PROJECT_ENVIRONMENT=/opt/usher UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 HATCH_BUILD_HOOKS_ENABLE=1
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /source
RUN pip install --no-cache-dir uv==${UV}
# Dependencies first: they change more seldom than the source.
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv sync --frozen --no-dev --no-install-project
COPY src src
RUN uv sync --frozen --no-dev --no-editable

FROM python:${PYTHON}-slim
COPY --from=build /opt/usher /opt/usher
ENV PATH=/opt/usher/bin:${PATH} HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Nobody: no name is needed, and the chart says the same.
USER 65532:65532
EXPOSE 8080 9443
ENTRYPOINT ["usher"]
CMD ["manager"]

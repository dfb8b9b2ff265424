# Weir in a container, built where it can be and kept small:
#   docker build -t weir .
#   docker run --rm -v "$PWD:/work" weir sweep config.json --global-batch-size 64 -K 1..8
# SPDX-License-Identifier: Apache-2.0
FROM debian:12-slim AS build
ENV DEBIAN_FRONTEND=noninteractive
WORKDIR /src
# The packages first: they change seldom, and their layer is kept.
COPY tools/install tools/packages tools/
RUN tools/install weir \
    && apt-get install -y -qq --no-install-recommends git \
    && git config --system --add safe.directory /src
COPY . .
RUN cmake --preset release -DWEIR_TESTS=OFF -DWEIR_PYTHON=OFF -DWEIR_BENCHMARKS=OFF \
    && cmake --build --preset release \
    && cmake --install build --prefix /opt/weir --component command --strip

FROM debian:12-slim
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends \
       libcpp-httplib0.11 libdnnl2 libfmt9 libopenmpi3 libssl3 libtbb12 libyaml-cpp0.7 openmpi-bin zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home weir
COPY --from=build /opt/weir /usr/local
USER weir
WORKDIR /work
ENTRYPOINT ["weir"]
CMD ["--help"]

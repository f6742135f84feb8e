# syntax=docker/dockerfile:1
# Both images are indices over several architectures, pinned by digest. To move to newer ones, look the tag up
# (docker buildx imagetools inspect TAG), or build with --build-arg. Both are Debian 12: the binary needs the libc of the second.
ARG BUILD_IMAGE=docker.io/library/rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f

FROM ${BUILD_IMAGE} AS build
# The toolchain of rust-toolchain.toml, which the image has, without the components that only development needs.
ENV RUSTUP_TOOLCHAIN=1.95.0
# For jemalloc; whichever version the pinned image's distribution has.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
# Equal sources give an equal binary: no paths of this machine in it, nothing left of earlier builds, no identifier by chance.
ENV CARGO_INCREMENTAL=0 \
    RUSTFLAGS="--remap-path-prefix=/src=. --remap-path-prefix=/usr/local/cargo=cargo -C link-arg=-Wl,--build-id=none"
WORKDIR /src
COPY . .
# Caches of different architectures are apart: what one has compiled is of no use to another.
ARG TARGETARCH
RUN --mount=type=cache,id=tributary-registry,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,id=tributary-target-${TARGETARCH},target=/src/target,sharing=locked \
    cargo build --locked --profile dist --features jemalloc --bin tributary \
    && install -D -m 0755 target/dist/tributary /out/tributary

# No shell, no package manager: libc, libgcc and the certificates of public authorities, for API servers that have one.
FROM ${RUNTIME_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="tributary" \
      org.opencontainers.image.description="Endpoint discovery for multi-cluster Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /out/tributary /usr/local/bin/tributary
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8086 9996 18000
ENTRYPOINT ["/usr/local/bin/tributary"]
CMD ["serve"]

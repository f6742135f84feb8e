# syntax=docker/dockerfile:1
# The toolchain of rust-toolchain.toml, without the components that only development needs.
FROM rust:1.95.0-slim-bookworm AS build
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --bin tributary \
    && cp target/dist/tributary /tributary

FROM debian:bookworm-slim
# For API servers with certificates of public authorities; usually the kubeconfig brings its own.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /tributary /usr/local/bin/tributary
USER 65532:65532
EXPOSE 8086 9996
ENTRYPOINT ["/usr/local/bin/tributary"]
CMD ["serve"]

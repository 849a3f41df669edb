# syntax=docker/dockerfile:1

# ── The manifests of the crates, without their sources ─────────────────────────────────────────────────────────────
FROM rust:1.95-bookworm AS manifests
COPY crates /crates
RUN find /crates -type f ! -name Cargo.toml -delete

# ── The binary ──────────────────────────────────────────────────────────────────────────────────────────────────────
FROM rust:1.95-bookworm AS build
# cmake builds; the others are for the training that packaging/guided.sh tells of.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends cmake nginx-light nghttp2-client openssl wrk \
 && rm -rf /var/lib/apt/lists/* \
 && rustup component add llvm-tools
WORKDIR /build

# Dependencies change seldom and take most of the time: the first of the two builds has them from the manifests and empty sources, in
# a layer of their own. Every target that a manifest names by path must exist, so those get an empty file too.
COPY Cargo.toml Cargo.lock ./
COPY patches patches
COPY --from=manifests /crates crates
COPY packaging/guided.sh packaging/
RUN for crate in . crates/*; do \
      install -D /dev/null $crate/src/lib.rs; \
      sed -n 's/^path *= *"\(.*\.rs\)".*/\1/p' $crate/Cargo.toml | xargs -r -I{} install -D /dev/null $crate/{}; \
    done \
 && echo 'fn main() {}' > src/main.rs \
 && packaging/guided.sh --until-counted

# Copied files keep their old dates: without the touch cargo would take the empty sources for the newer ones.
COPY crates crates
COPY src src
COPY conf conf
COPY ui ui
COPY packaging/guided packaging/guided
COPY benches/start.sh benches/
RUN find src crates -name '*.rs' -exec touch {} + \
 && packaging/guided.sh \
 && mkdir /state

# ── The image: libc, libgcc, certificates, an ordinary user; no shell ───────────────────────────────────────────────
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /build/target/guided/sluicegate /usr/local/bin/sluicegate
COPY conf/gateway.toml /etc/sluicegate/gateway.toml
# Where a volume goes if counters are to outlive the container: [server] state_dir = "/var/lib/sluicegate/state".
COPY --from=build --chown=nonroot:nonroot /state /var/lib/sluicegate

# 8080 serves. 9180 is the operator's: it listens on the container's loopback until [admin] address says otherwise.
EXPOSE 8080 9180
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/sluicegate", "ping", "--config", "/etc/sluicegate/gateway.toml"]
# SIGTERM drains for up to [server] shutdown_timeout, 30 s by default; Docker sends SIGKILL after 10 s unless the container is run with
# --stop-timeout 45 (stop_grace_period in Compose).
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/sluicegate"]
CMD ["run", "--config", "/etc/sluicegate/gateway.toml"]

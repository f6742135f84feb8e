# Short names for what CONTRIBUTING.md lists. No recipe hides a flag that CI does not use.

# Show this list.
default:
    @just --list

# Does everything compile?
check:
    cargo check --locked --all-targets --all-features

# Format the code.
fmt:
    cargo fmt

# Formatting, clippy, documentation.
lint:
    scripts/test lint

# Everything that needs no peers.
test:
    scripts/test unit

# Install the real peers of the tests, pinned, into the cache folder.
deps:
    scripts/deps

# Everything against real peers and recordings.
e2e:
    scripts/test apiserver observed grpcurl clients

# Charts, rights, alerts, and the commands of docs/install.md.
deploy:
    scripts/test deploy

# The plain manifests of deploy/, from the charts.
render:
    scripts/render

# What everything costs, as ratios; with figures for programs in target/bench.json.
bench *arguments:
    cargo bench --locked --bench cost -- --json target/bench.json {{arguments}}

# Half an hour of churn, reconnects and clients that do not read.
soak minutes="30":
    scripts/soak {{minutes}}

# Licences, duplicates and sources of dependencies.
deny:
    scripts/test deny

# The documentation of the code.
doc:
    cargo doc --locked --no-deps --all-features --open

# Three made-up clusters.
run:
    cargo run --release -- demo

# The container image.
image:
    docker build -t tributary .

# What CI runs.
ci:
    .ci/run

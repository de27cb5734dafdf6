# What `make setup` needs on Debian 12; it installs the rest itself. Run with --privileged: programs are isolated by bubblewrap,
# which makes namespaces.
#
#   docker build -t hipsynth . && docker run --privileged -v "$PWD:/hipsynth" hipsynth make demo
FROM debian:12
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git make python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /hipsynth
CMD ["make", "demo"]

# An image of the command alone: docker build --build-arg VERSION=v0.1.0 --tag interlock .
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
ARG VERSION TARGETOS TARGETARCH
# The image has no time zones, so the command brings its own.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -tags timetzdata -ldflags="-X main.release=$VERSION" -o /out/interlock ./cmd/interlock

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/interlock /interlock
USER 65532:65532
ENTRYPOINT ["/interlock"]

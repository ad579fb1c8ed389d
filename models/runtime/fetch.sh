#!/bin/sh
# Fetches ONNX Runtime's shared library into a folder, from PyPI's onnxruntime
# wheel with pip, or from the npm package onnxruntime-node with npm.
# usage: fetch.sh FOLDER        (default bin/lib)
# PACKAGE_CLIENT=pip|npm chooses; otherwise the first one found is used.
set -eu

version=1.30.0 # older ones round the 8-bit matrix products of the bundles differently (logits moved by up to 0.08 with 1.27 and 1.28)
dest=${1:-bin/lib}

case $(uname -s) in
Linux) lib=libonnxruntime.so ;;
Darwin) lib=libonnxruntime.dylib ;;
*) echo "fetch.sh: no library for $(uname -s): set VERISCI_ONNXRUNTIME to one you have" >&2; exit 1 ;;
esac
case $(uname -s)-$(uname -m) in
Linux-x86_64) wheel=manylinux_2_28_x86_64 node=linux/x64 ;;
Linux-aarch64) wheel=manylinux_2_28_aarch64 node=linux/arm64 ;;
Darwin-arm64) wheel=macosx_14_0_arm64 node=darwin/arm64 ;;
*) echo "fetch.sh: no library for $(uname -s) on $(uname -m): set VERISCI_ONNXRUNTIME to one you have" >&2; exit 1 ;;
esac

if [ "$(cat "$dest/VERSION" 2>/dev/null)" = "$version" ] && [ -f "$dest/$lib" ]; then
    exit 0
fi

client=${PACKAGE_CLIENT:-}
if [ -z "$client" ]; then
    if python3 -m pip --version >/dev/null 2>&1; then client=pip
    elif command -v npm >/dev/null 2>&1; then client=npm
    else
        echo "fetch.sh: neither pip nor npm was found: install one, or set VERISCI_ONNXRUNTIME to a libonnxruntime you have" >&2
        exit 1
    fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "fetching ONNX Runtime $version with $client" >&2
case $client in
pip)
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --implementation cp --python-version 3.12 --platform "$wheel" --dest "$work" "onnxruntime==$version"
    (cd "$work" && python3 -m zipfile -e onnxruntime-*.whl .)
    found=$(find "$work/onnxruntime/capi" -name 'libonnxruntime.so.*' -o -name 'libonnxruntime.*.dylib' | head -n 1)
    ;;
npm)
    (cd "$work" && npm pack --silent "onnxruntime-node@$version" >/dev/null && tar -xzf onnxruntime-node-*.tgz "package/bin/napi-v6/$node")
    found=$(find "$work/package/bin/napi-v6/$node" -name 'libonnxruntime.so.*' -o -name 'libonnxruntime.*.dylib' | head -n 1)
    ;;
*) echo "fetch.sh: PACKAGE_CLIENT must be pip or npm" >&2; exit 1 ;;
esac
if [ -z "$found" ]; then
    echo "fetch.sh: the package holds no ONNX Runtime library" >&2
    exit 1
fi
mkdir -p "$dest"
cp "$found" "$dest/$lib.part"
mv "$dest/$lib.part" "$dest/$lib"
echo "$version" >"$dest/VERSION"

#!/bin/sh
# Runs a JavaScript or TypeScript program: js_driver.sh TOOL PROGRAM [ARGUMENT...]
drivers=/opt/stockade/drivers
tool=$1
shift
case ${tool##*/} in
bun*) exec "$tool" --no-install --preload "$drivers/bun_preload.js" "$@" ;;
*) exec "$tool" --enable-source-maps "$drivers/node_driver.mjs" "$@" ;;
esac

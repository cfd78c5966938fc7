#!/bin/sh
# Runs a PHP program: php_driver.sh TOOL PROGRAM [ARGUMENT...]
#
# Debian switches extensions on in /etc/php, where people also keep passwords.
# The same switches lie below /usr/share as the packages brought them.
tool=$1
shift
PHP_INI_SCAN_DIR=
for dir in /usr/share/php*-*/*/; do
    PHP_INI_SCAN_DIR=$PHP_INI_SCAN_DIR${PHP_INI_SCAN_DIR:+:}$dir
done
export PHP_INI_SCAN_DIR
exec "$tool" -d display_errors=stderr -d opcache.enable=0 "$@"

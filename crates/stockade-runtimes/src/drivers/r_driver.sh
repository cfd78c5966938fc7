#!/bin/sh
# Runs an R program: r_driver.sh PROGRAM [ARGUMENT...]
#
# R reads settings that Debian keeps in /etc/R, where people also keep
# passwords. So it gets a home of links to all of its own but those.
program=$1
shift
for installed in /usr/lib/R /usr/lib64/R /usr/local/lib/R /usr/local/lib64/R; do
    [ ! -x "$installed/bin/exec/R" ] || break
done
R_HOME=$HOME/.R-home
if [ ! -d "$R_HOME" ]; then
    mkdir -p "$R_HOME/etc"
    : >"$R_HOME/etc/Renviron"
    ln -s "$installed"/[!e]* "$R_HOME/"
fi
[ ! -d /usr/share/R/share ] || export R_SHARE_DIR=/usr/share/R/share R_DOC_DIR=/usr/share/R/doc
R_LIBS_SITE=/usr/local/lib/R/site-library:/usr/lib/R/site-library
LD_LIBRARY_PATH=$installed/lib
export R_HOME R_LIBS_SITE LD_LIBRARY_PATH
exec "$installed/bin/exec/R" --vanilla --no-echo "--file=$program" --args "$@"

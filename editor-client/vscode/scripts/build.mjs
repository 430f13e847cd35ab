// Bundles the extension and the scripts of its pages.
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
for (const [page, script] of [["panel", "src/panel/view.ts"], ["forecast", "src/forecast/view.ts"]]) {
    await build({ ...shared, entryPoints: [script], outfile: `dist/${page}.js`, platform: "browser", target: "es2022", format: "iife" });
}

// Bundles the tests, which are an extension themselves, and those that stand in for others, into build/extensions.
import { copyFileSync, mkdirSync } from "node:fs";
import { build } from "esbuild";

for (const name of ["runner", "python", "environments"]) {
    mkdirSync(`build/extensions/${name}`, { recursive: true });
    copyFileSync(`test/extensions/${name}/package.json`, `build/extensions/${name}/package.json`);
    await build({
        entryPoints: [`test/extensions/${name}/extension.ts`],
        outfile: `build/extensions/${name}/extension.js`,
        bundle: true,
        sourcemap: "inline",
        platform: "node",
        target: "node20",
        format: "cjs",
        external: ["vscode", "mocha"],
        logLevel: "warning",
    });
}

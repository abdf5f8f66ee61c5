// The notebook widget: one ES module and one style sheet, with everything in them. Preact stands in for React, which
// halves what every widget sends to the page and saves into the notebook.
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = fileURLToPath(new URL('../../jupyter_ahp/notebook/static/', import.meta.url));
const shared = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  legalComments: 'none',
  write: false
};

const [script, style] = await Promise.all([
  build({
    ...shared,
    entryPoints: ['src/widget/index.tsx'],
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    tsconfigRaw: { compilerOptions: { jsx: 'react-jsx' } },
    alias: {
      react: 'preact/compat',
      'react-dom/client': 'preact/compat/client',
      'react/jsx-runtime': 'preact/jsx-runtime'
    },
    define: { 'process.env.NODE_ENV': '"production"' }
  }),
  build({
    ...shared,
    stdin: {
      contents: "@import './style/index.css'; @import './style/bare.css';",
      loader: 'css',
      resolveDir: root
    }
  })
]);

await mkdir(out, { recursive: true });
for (const [name, { outputFiles }] of [
  ['widget.js', script],
  ['widget.css', style]
]) {
  await writeFile(out + name, outputFiles[0].contents);
  console.log(`${name}  ${(outputFiles[0].contents.length / 1024).toFixed(0)} kB`);
}

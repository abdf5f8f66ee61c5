import type { ViewHost } from '../host';

const NAMES: Readonly<Record<string, string>> = {
  bash: 'Shell',
  c: 'C',
  cpp: 'C++',
  cs: 'C#',
  css: 'CSS',
  go: 'Go',
  html: 'HTML',
  java: 'Java',
  javascript: 'JavaScript',
  js: 'JavaScript',
  json: 'JSON',
  julia: 'Julia',
  jsx: 'JSX',
  md: 'Markdown',
  markdown: 'Markdown',
  py: 'Python',
  python: 'Python',
  r: 'R',
  rs: 'Rust',
  rust: 'Rust',
  sh: 'Shell',
  shell: 'Shell',
  sql: 'SQL',
  toml: 'TOML',
  ts: 'TypeScript',
  tsx: 'TSX',
  typescript: 'TypeScript',
  xml: 'XML',
  yaml: 'YAML',
  yml: 'YAML'
};

/** "python" as people write it. */
export function languageName(language: string): string {
  return NAMES[language.toLowerCase()] ?? language;
}

const COPIED_MS = 1500;

function copyButton(host: ViewHost, text: () => string): HTMLButtonElement {
  const { t } = host.words;
  const button = document.createElement('button');
  const icon = document.createElement('span');
  const name = (label: string, glyph: string): void => {
    button.setAttribute('aria-label', label);
    button.title = label;
    icon.dataset.icon = glyph;
  };
  button.type = 'button';
  button.className = 'ahp-IconBtn';
  icon.className = 'ahp-Icon';
  button.append(icon);
  name(t('Copy code'), 'copy');
  button.addEventListener('click', () => {
    void host.copy(text()).then(
      () => name(t('Copied'), 'check'),
      () => name(t('The browser did not allow copying'), 'warn')
    );
    setTimeout(() => name(t('Copy code'), 'copy'), COPIED_MS);
  });
  return button;
}

/** A figure with the language, the actions and the code. `code` is what is to be filled in, or moved in. */
export function codeFigure(host: ViewHost, language: string, code: HTMLElement): HTMLElement {
  const { t } = host.words;
  const figure = document.createElement('figure');
  const bar = document.createElement('div');
  const label = document.createElement('span');
  const pre = document.createElement('pre');
  const name = languageName(language);
  figure.className = 'ahp-Code';
  figure.setAttribute('aria-label', name ? t('%1 code', name) : t('Code'));
  bar.className = 'ahp-Code-bar';
  label.className = 'ahp-grow';
  label.textContent = name || t('Code');
  bar.append(
    label,
    copyButton(host, () => code.textContent ?? '')
  );
  pre.tabIndex = 0;
  pre.append(code);
  figure.append(bar, pre);
  return figure;
}

/** Gives every code block and table inside rendered markdown its frame. */
export function decorate(host: ViewHost, root: HTMLElement): void {
  for (const pre of root.querySelectorAll('pre')) {
    const code = pre.querySelector('code');
    if (code && pre.parentElement && !pre.closest('.ahp-Code')) {
      const language = /\blanguage-(\S+)/.exec(code.className)?.[1] ?? '';
      pre.replaceWith(codeFigure(host, language, code));
    }
  }
  for (const table of root.querySelectorAll('table')) {
    const box = document.createElement('div');
    box.className = 'ahp-TableBox';
    box.tabIndex = 0;
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', host.words.t('Table, scrolls sideways'));
    table.replaceWith(box);
    box.append(table);
  }
  for (const text of root.querySelectorAll('p, li, blockquote, h1, h2, h3, h4, h5, h6, td, th')) {
    text.setAttribute('dir', 'auto');
  }
}

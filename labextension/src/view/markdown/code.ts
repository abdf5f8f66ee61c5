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

const TOLD_MS = 1500;

type Label = () => { label: string; icon: string };

/** A button that is an icon alone, and says how it went. `label` is asked anew when somebody is about to press it. */
function actionButton(
  { label, icon: glyph }: { label: () => string; icon: string },
  act: () => Promise<void>,
  done: string
): HTMLButtonElement {
  const button = document.createElement('button');
  const icon = document.createElement('span');
  const name: (say: Label) => void = say => {
    const said = say();
    button.setAttribute('aria-label', said.label);
    button.title = said.label;
    icon.dataset.icon = said.icon;
  };
  const idle: Label = () => ({ label: label(), icon: glyph });
  button.type = 'button';
  button.className = 'ahp-IconBtn';
  icon.className = 'ahp-Icon';
  button.append(icon);
  name(idle);
  let told: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    if (told === undefined) {
      name(idle);
    }
  };
  button.addEventListener('pointerenter', look);
  button.addEventListener('focus', look);
  button.addEventListener('click', () => {
    act()
      .then(
        () => name(() => ({ label: done, icon: 'check' })),
        (error: Error) => name(() => ({ label: error.message, icon: 'warn' }))
      )
      .finally(() => {
        clearTimeout(told);
        told = setTimeout(() => {
          told = undefined;
          name(idle);
        }, TOLD_MS);
      });
  });
  return button;
}

/** What can be done with the code in a notebook. */
function notebookButtons(
  host: ViewHost,
  language: string,
  text: () => string
): HTMLButtonElement[] {
  const { code, words } = host;
  if (!code) {
    return [];
  }
  const { t } = words;
  const naming = (some: (notebook: string) => string, none: string) => (): string => {
    const notebook = code.where();
    return notebook === undefined ? none : some(notebook);
  };
  return [
    actionButton(
      {
        icon: 'insert',
        label: naming(
          notebook => t('Insert below the active cell of %1', notebook),
          t('Insert into a new notebook')
        )
      },
      () => code.insert(text(), language, false),
      t('Inserted')
    ),
    actionButton(
      {
        icon: 'replace',
        label: naming(
          notebook => t('Replace the active cell of %1', notebook),
          t('Replace the active cell: no notebook is open')
        )
      },
      () => code.replace(text()),
      t('Replaced')
    ),
    actionButton(
      {
        icon: 'run',
        label: naming(
          notebook => t('Run in a new cell of %1', notebook),
          t('Run in a new notebook')
        )
      },
      () => code.insert(text(), language, true),
      t('Runs')
    )
  ];
}

/** A figure with the language, the actions and the code. `code` is what is to be filled in, or moved in. */
export function codeFigure(host: ViewHost, language: string, code: HTMLElement): HTMLElement {
  const { t } = host.words;
  const figure = document.createElement('figure');
  const bar = document.createElement('div');
  const label = document.createElement('span');
  const pre = document.createElement('pre');
  const name = languageName(language);
  const text = (): string => code.textContent ?? '';
  figure.className = 'ahp-Code';
  figure.setAttribute('aria-label', name ? t('%1 code', name) : t('Code'));
  bar.className = 'ahp-Code-bar';
  label.className = 'ahp-grow';
  label.textContent = name || t('Code');
  bar.append(
    label,
    actionButton(
      { icon: 'copy', label: () => t('Copy code') },
      () =>
        host.copy(text()).catch(() => {
          throw new Error(t('The browser did not allow copying'));
        }),
      t('Copied')
    ),
    ...notebookButtons(host, language, text)
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

import DOMPurify from 'dompurify';
import { Marked } from 'marked';
import { english, quiet, type ViewHost } from '../view';

const FORBIDDEN = ['style', 'form', 'input', 'button', 'textarea', 'select', 'option'];

/** HTML of somebody else's, with nothing in it that runs, asks or loads. */
export function clean(html: string): string {
  return quiet(
    DOMPurify.sanitize(html, { FORBID_TAGS: FORBIDDEN, FORBID_ATTR: ['style', 'id', 'name'] })
  );
}

/** A page that is not JupyterLab: VS Code, Colab, an exported notebook. LaTeX stays as it was written. */
export function pageHost(): ViewHost {
  const marked = new Marked({ gfm: true, async: false });
  return {
    words: english,
    renderMarkdown: async source => {
      const element = document.createElement('div');
      element.innerHTML = clean(marked.parse(source) as string);
      return element;
    },
    copy: text => navigator.clipboard.writeText(text),
    confirm: async ({ title, body }) => window.confirm(`${title}\n\n${body}`),
    // there is no other place for a chat on such a page
    openChat: () => undefined,
    newChat: () => undefined
  };
}

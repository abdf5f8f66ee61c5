import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { PanelLayout, Widget } from '@lumino/widgets';

const ERROR_MIME = 'application/vnd.jupyter.error';
/** What JupyterLab shows of an error, where nobody else has a renderer for the error itself. */
const TEXT_MIME = 'application/vnd.jupyter.stderr';
/** Before JupyterLab's own, which ours shows. */
const RANK = -20;

/** Puts a button under what a cell that failed shows; JupyterLab's own renderer shows it, as ever. */
export function offerUnderErrors(
  rendermime: IRenderMimeRegistry,
  label: string,
  fix: (button: HTMLElement) => void
): void {
  const mimeType = rendermime.getFactory(ERROR_MIME) ? ERROR_MIME : TEXT_MIME;
  const own = rendermime.getFactory(mimeType);
  if (!own) {
    return; // a JupyterLab that shows errors otherwise
  }
  rendermime.addFactory(
    {
      safe: true,
      mimeTypes: [ERROR_MIME],
      createRenderer: options =>
        new ErrorWithButton(own.createRenderer({ ...options, mimeType }), label, fix)
    },
    RANK
  );
}

class ErrorWithButton extends Widget implements IRenderMime.IRenderer {
  constructor(
    private readonly _error: IRenderMime.IRenderer,
    label: string,
    fix: (button: HTMLElement) => void
  ) {
    super();
    this.addClass('jp-ahp-Error');
    const layout = new PanelLayout();
    this.layout = layout;
    layout.addWidget(_error);
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'jp-ahp-Fix';
    button.textContent = label;
    button.addEventListener('click', () => fix(button));
    const bar = new Widget();
    bar.node.append(button);
    layout.addWidget(bar);
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    return this._error.renderModel(model);
  }
}

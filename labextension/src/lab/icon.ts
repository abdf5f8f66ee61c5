import { LabIcon } from '@jupyterlab/ui-components';

export const chatIcon = new LabIcon({
  name: 'jupyter-ahp:chat',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16"><path class="jp-icon3" fill="#616161" ' +
    'd="M1.5 2.2h13v9.6H7.6l-3.9 3.3v-3.3H1.5zm1.4 1.4v6.8h2.2v1.7l2-1.7h6V3.6z"/></svg>'
});

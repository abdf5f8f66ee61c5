import type { AnyModel, AnyWidget } from '@anywidget/types';
import React, { useCallback, useEffect, useMemo, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { AhpConnection, AhpStore, browserWake } from '../ahp';
import { type Bridge, getBridge } from '../view/bridge';
import { pageHost } from './pageHost';
import { type Route, routesOf } from './routes';
import { WidgetView } from './WidgetView';

function connect(route: Route, onFailed: () => void): AhpStore {
  let reached = false;
  const connection = new AhpConnection({
    open: async () => {
      try {
        const socket = await route.open();
        reached = true;
        return socket;
      } catch (error) {
        if (!reached) {
          onFailed();
        }
        throw error;
      }
    },
    clientInfo: { name: 'jupyter-ahp-widget', title: 'Notebook widget' },
    wake: browserWake(window, document)
  });
  const store = new AhpStore(connection);
  connection.start();
  return store;
}

/** In JupyterLab: the page's own connection, and JupyterLab's renderers. */
function InLab(props: { model: AnyModel; bridge: Bridge }): React.ReactElement {
  const { model, bridge } = props;
  return (
    <WidgetView
      model={model}
      store={bridge.connect()}
      host={bridge.host}
      throughKernel={false}
      inLab
      onMissing={nothing}
    />
  );
}

function nothing(): void {
  // where there is one way only, there is no other to try
}

/** On any other page: the first way to the host that leads there. */
function OnPage(props: { model: AnyModel }): React.ReactElement | null {
  const { model } = props;
  const routes = useMemo(() => routesOf(model, document), [model]);
  const host = useMemo(pageHost, []);
  const [at, setAt] = useState(0);
  const [store, setStore] = useState<AhpStore>();
  const next = useCallback(() => setAt(index => Math.min(index + 1, routes.length - 1)), [routes]);
  const route = routes[at];
  useEffect(() => {
    const opened = connect(route, next);
    setStore(opened);
    return () => opened.dispose();
  }, [route, next]);
  if (!store) {
    return null;
  }
  return (
    <WidgetView
      model={model}
      store={store}
      host={host}
      throughKernel={route.kind === 'kernel'}
      inLab={false}
      onMissing={next}
    />
  );
}

/** Pages without JupyterLab's variables get plain ones. */
function isBare(element: HTMLElement): boolean {
  return !getComputedStyle(element).getPropertyValue('--jp-layout-color1').trim();
}

const widget: AnyWidget = {
  render({ model, el }) {
    el.classList.toggle('ahp-bare', isBare(el));
    const root = createRoot(el);
    const bridge = getBridge();
    root.render(bridge ? <InLab model={model} bridge={bridge} /> : <OnPage model={model} />);
    return () => root.unmount();
  }
};

export default widget;

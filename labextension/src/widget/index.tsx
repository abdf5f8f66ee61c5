import type { AnyModel, AnyWidget } from '@anywidget/types';
import React, { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { createRoot } from 'react-dom/client';
import { AhpConnection, AhpStore, browserWake } from '../ahp';
import { type Bridge, getBridge } from '../view/bridge';
import { clean, pageHost } from './pageHost';
import { type Route, routesOf } from './routes';
import { WidgetView, type WidgetProps } from './WidgetView';

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

/** A trait of the widget's Python side, followed. */
function useTrait<T>(model: AnyModel, name: string): T {
  const watch = useMemo(
    () => (listener: () => void) => {
      model.on(`change:${name}`, listener);
      return () => model.off(`change:${name}`, listener);
    },
    [model, name]
  );
  return useSyncExternalStore(watch, () => model.get(name) as T);
}

/** The view, of what the widget's Python side says. */
function ModelView(
  props: { model: AnyModel } & Pick<
    WidgetProps,
    'store' | 'host' | 'throughKernel' | 'inLab' | 'onMissing'
  >
): React.ReactElement {
  const { model, ...rest } = props;
  const saved = useCallback(() => clean((model.get('fallback') as string) || ''), [model]);
  return (
    <WidgetView
      chat={useTrait<string>(model, 'chat_uri')}
      session={useTrait<string>(model, 'session_uri') || undefined}
      height={useTrait<number>(model, 'height') || 400}
      onHeight={height => {
        model.set('height', height);
        model.save_changes();
      }}
      saved={saved}
      {...rest}
    />
  );
}

/** In JupyterLab: the page's own connection, and JupyterLab's renderers. */
function InLab(props: { model: AnyModel; bridge: Bridge }): React.ReactElement {
  const { model, bridge } = props;
  return (
    <ModelView
      model={model}
      store={bridge.connect()}
      host={bridge.host}
      throughKernel={false}
      inLab
    />
  );
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
    <ModelView
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

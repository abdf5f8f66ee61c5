import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';
import type { URI } from '../ahp';
import { type ChatRef, startChat, wordsOf } from '../view';
import { setBridge } from '../view/bridge';
import { sessionOf } from '../view/sessions';
import { CanvasPanel } from './CanvasPanel';
import { showChatsInCells } from './cellChat';
import { ChatPanel } from './ChatPanel';
import { type Area, CommandIDs } from './commands';
import { LazyStore } from './connection';
import { labHost } from './host';
import { chatIcon } from './icon';
import { goToNext } from './needs';
import { addNotebookCommands, showCell } from './notebook';
import { codeActions } from './notebook/code';
import { takesCells } from './notebook/drop';
import { Inbox } from './notebook/inbox';
import { SidePanel } from './SidePanel';
import { ClientTools } from './tools/clientTools';
import { notebooksOf } from './tools/notebooks';
import { notebookTools } from './tools/notebookTools';

const PLUGIN_ID = 'jupyter-ahp:plugin';
const SIDE_KEY = 'jupyter-ahp:side';

function localeOf(code: string): string | undefined {
  const tag = code.replace('_', '-');
  return Intl.DateTimeFormat.supportedLocalesOf([tag]).length ? tag : undefined;
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description:
    'Chats with AI agents: a panel, chats in the main area, and the bridge for notebook widgets.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [
    ITranslator,
    ICommandPalette,
    ILauncher,
    ILayoutRestorer,
    ISettingRegistry,
    IStateDB,
    ILabShell
  ],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    state: IStateDB | null,
    labShell: ILabShell | null
  ) => {
    const { commands, shell } = app;
    const words = wordsOf((translator ?? nullTranslator).load('jupyter-ahp'));
    const { t } = words;
    const locale = localeOf((translator ?? nullTranslator).languageCode);
    const store = new LazyStore(
      t('No agent host here. Chats need a Jupyter server with the jupyter-ahp extension.'),
      locale
    );
    // other shells (Notebook 7) have one thing in their main area, and it is not ours to replace
    const hasTabs = labShell !== null;
    const canvases = new Map<URI, CanvasPanel>();
    const showCanvas = (canvas: URI, chat: URI): void => {
      const widget = canvases.get(canvas) ?? new CanvasPanel(canvas, chat, store.get(), host);
      if (!canvases.has(canvas)) {
        canvases.set(canvas, widget);
        widget.disposed.connect(() => canvases.delete(canvas));
        shell.add(widget, 'main', { mode: 'split-right', type: 'Canvas' });
      }
      shell.activateById(widget.id);
    };
    const notebooks = notebooksOf(shell);
    const inbox = new Inbox();
    let tools: ClientTools | undefined;
    const attend = (session: URI): (() => void) => {
      tools ??= new ClientTools(
        store.get(),
        'JupyterLab',
        notebookTools({
          notebooks,
          open: path => openFile(app, path),
          words
        })
      );
      return tools.attend(session);
    };
    const host = labHost({
      commands,
      rendermime,
      words,
      locale,
      attend,
      receive: (chat, take) => inbox.receive(chat, take),
      code: codeActions(notebooks, commands),
      showCell: place => showCell(place, app, notebooks, path => openFile(app, path), words),
      ...(hasTabs ? { showCanvas } : {})
    });
    let newArea: Area = 'side';

    const panel = new SidePanel(store.get, host, hasTabs);
    const tracker = new WidgetTracker<ChatPanel>({ namespace: 'jupyter-ahp' });
    shell.add(panel, 'right', { rank: 650, type: 'Chats' });
    restorer?.add(panel, panel.id);
    setBridge({ host, connect: store.get, app });
    showChatsInCells(rendermime, { connect: store.get, host });

    const sessionFor = ({ chat, session }: ChatRef): URI | undefined =>
      session ?? sessionOf(store.get().sessions.getState(), chat);
    const open = (chat: ChatRef, area: Area): Widget => {
      if (area === 'main' && hasTabs) {
        const known = tracker.find(widget => widget.chat.chat === chat.chat);
        const widget = known ?? new ChatPanel(chat, store.get(), host);
        if (!known) {
          shell.add(widget, 'main', { type: 'Chat' });
          void tracker.add(widget);
        }
        shell.activateById(widget.id);
        return widget;
      }
      shell.activateById(panel.id);
      panel.showChat(chat);
      return panel;
    };

    commands.addCommand(CommandIDs.openChats, {
      label: t('Show chats'),
      icon: chatIcon,
      execute: () => {
        panel.showList();
        shell.activateById(panel.id);
      }
    });
    commands.addCommand(CommandIDs.newChat, {
      label: args => (args['isPalette'] ? t('New chat with an agent') : t('Chat')),
      caption: t('Begin a chat with an agent'),
      icon: args => (args['isPalette'] ? undefined : chatIcon),
      execute: async args => {
        const area = args['area'] === 'main' || args['area'] === 'side' ? args['area'] : newArea;
        try {
          const chat = await startChat(
            store.get(),
            typeof args['agent'] === 'string' ? args['agent'] : undefined
          );
          open(chat, area);
        } catch (error) {
          const { message } = error as Error;
          panel.showProblem(t('No new chat: %1', message));
          shell.activateById(panel.id);
        }
      }
    });
    commands.addCommand(CommandIDs.openChat, {
      label: t('Open a chat'),
      isVisible: () => false,
      execute: args => {
        const { uri, session, area } = args as { uri?: string; session?: string; area?: Area };
        if (!uri) {
          throw new Error(`${CommandIDs.openChat} needs {uri}: the URI of a chat`);
        }
        open({ chat: uri, session }, area ?? newArea);
      }
    });

    commands.addCommand(CommandIDs.nextNeedsYou, {
      label: t('Go to the next question of an agent'),
      execute: () => {
        const tabs = shown(tracker).map(({ node, chat }) => ({ node, session: sessionFor(chat) }));
        const side = { node: panel.node, session: panel.chat && sessionFor(panel.chat) };
        goToNext(
          panel.isVisible ? [...tabs, side] : tabs,
          store.get().sessions.getState().items,
          chat => open(chat, newArea).node
        );
      }
    });

    /** The chat that a person has in front of them: in a tab, else in the panel; a new one where there is none. */
    const chatInFront = async (): Promise<URI> => {
      const tabs = shown(tracker);
      const tab = tabs.find(widget => widget === tracker.currentWidget) ?? tabs[0];
      if (panel.chat && panel.isVisible) {
        return panel.chat.chat;
      }
      if (tab) {
        return tab.chat.chat;
      }
      const ref = panel.chat ?? (await startChat(store.get()));
      open(ref, 'side');
      return ref.chat;
    };
    addNotebookCommands({
      app,
      notebooks,
      rendermime,
      palette,
      words,
      inbox,
      chat: async () => {
        try {
          return await chatInFront();
        } catch (error) {
          panel.showProblem(t('No new chat: %1', (error as Error).message));
          shell.activateById(panel.id);
          throw error;
        }
      },
      prefix: () => store.get().connection.host?.terminalCommandPrefix
    });
    takesCells(panel.node, notebooks, words, incoming => {
      if (panel.chat) {
        inbox.put(panel.chat.chat, incoming);
      }
      return panel.chat !== undefined;
    });
    tracker.widgetAdded.connect((_, widget) =>
      takesCells(widget.node, notebooks, words, incoming => {
        inbox.put(widget.chat.chat, incoming);
        return true;
      })
    );

    for (const command of [CommandIDs.openChats, CommandIDs.newChat, CommandIDs.nextNeedsYou]) {
      palette?.addItem({ command, category: t('Chat'), args: { isPalette: true } });
    }
    launcher?.add({
      command: CommandIDs.newChat,
      category: 'Other',
      rank: 0,
      args: { area: 'main' }
    });

    if (restorer) {
      void restorer.restore(tracker, {
        command: CommandIDs.openChat,
        args: ({ chat }) => ({
          uri: chat.chat,
          area: 'main',
          ...(chat.session ? { session: chat.session } : {})
        }),
        name: ({ chat }) => chat.chat
      });
    }
    if (state) {
      void restoreSide(state, panel);
    }
    if (settings) {
      void settings.load(PLUGIN_ID).then(
        loaded => {
          const read = (): void => {
            newArea = loaded.get('newChatArea').composite === 'main' ? 'main' : 'side';
          };
          loaded.changed.connect(read);
          read();
        },
        (error: Error) =>
          console.error('jupyter-ahp: the settings could not be read; defaults are used', error)
      );
    }
  }
};

/** Opens a file of the server's, and waits until it is there. Rejects when there is no such file. */
async function openFile(
  { commands, serviceManager }: JupyterFrontEnd,
  path: string
): Promise<void> {
  await serviceManager.contents.get(path, { content: false });
  const widget = (await commands.execute('docmanager:open', { path })) as
    { context?: { ready?: Promise<void> } } | undefined;
  await widget?.context?.ready;
}

/** The chats of the main area that are in sight. */
function shown(tracker: WidgetTracker<ChatPanel>): ChatPanel[] {
  const visible: ChatPanel[] = [];
  tracker.forEach(widget => void (widget.isVisible && visible.push(widget)));
  return visible;
}

/** The chat that was open in the panel is open there again after a reload. */
async function restoreSide(state: IStateDB, panel: SidePanel): Promise<void> {
  try {
    const saved = (await state.fetch(SIDE_KEY)) as { chat?: string; session?: string } | undefined;
    if (saved?.chat) {
      panel.showChat({ chat: saved.chat, session: saved.session });
    }
  } catch (error) {
    console.error('jupyter-ahp: which chat was open could not be read; the list is shown', error);
  }
  panel.shown.connect((_, chat) => {
    const saved = chat
      ? { chat: chat.chat, ...(chat.session ? { session: chat.session } : {}) }
      : {};
    state
      .save(SIDE_KEY, saved)
      .catch((error: Error) =>
        console.error('jupyter-ahp: which chat is open could not be kept', error)
      );
  });
}

export default plugin;

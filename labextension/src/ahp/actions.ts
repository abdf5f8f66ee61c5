/**
 * Every action of AHP 1.0 that a reducer or a client of this package knows, as one union.
 *
 * Which of them a client may send is the host's to say: it refuses the others.
 */

import type {
  Annotation,
  AnnotationEntry,
  AgentInfo,
  BackgroundWork,
  CanvasState,
  ChangesetFile,
  ChangesetOperation,
  ChangesetStatus,
  Changeset,
  ChatInputAnswer,
  ChatInputAnswers,
  ChatInputRequest,
  ChatSummary,
  ConfigValues,
  Confirmed,
  Customization,
  Enablement,
  ErrorInfo,
  ErrorPart,
  FileEdit,
  InputResponse,
  McpAuthRequirement,
  McpServerState,
  Message,
  Meta,
  PendingKind,
  ResponsePart,
  RiskAssessment,
  SessionActiveClient,
  SessionInputRequest,
  StringOrMarkdown,
  TerminalClaim,
  TerminalInfo,
  ToolCallOption,
  ToolCallResult,
  ToolContent,
  ToolContributor,
  ToolDefinition,
  ToolInput,
  Turn,
  URI,
  UsageInfo
} from './types';

type A<T extends string, F = object> = { readonly type: T } & Readonly<F>;

export type RootAction =
  | A<'root/agentsChanged', { agents: readonly AgentInfo[] }>
  | A<'root/activeSessionsChanged', { activeSessions: number }>
  | A<'root/terminalsChanged', { terminals: readonly TerminalInfo[] }>
  | A<'root/configChanged', { config: ConfigValues; replace?: boolean }>;

export type SessionAction =
  | A<'session/ready'>
  | A<'session/creationFailed', { error: ErrorInfo }>
  | A<'session/chatAdded', { summary: ChatSummary }>
  | A<'session/chatRemoved', { chat: URI }>
  | A<'session/chatUpdated', { chat: URI; changes: Partial<ChatSummary> }>
  | A<'session/chatsReordered', { chats: readonly URI[] }>
  | A<'session/defaultChatChanged', { defaultChat?: URI }>
  | A<'session/titleChanged', { title: string }>
  | A<'session/isReadChanged', { isRead: boolean }>
  | A<'session/isArchivedChanged', { isArchived: boolean }>
  | A<'session/activityChanged', { activity?: string }>
  | A<'session/changesetsChanged', { changesets?: readonly Changeset[] }>
  | A<'session/configChanged', { config: ConfigValues; replace?: boolean }>
  | A<'session/metaChanged', { _meta?: Meta }>
  | A<'session/serverToolsChanged', { tools: readonly ToolDefinition[] }>
  | A<'session/activeClientSet', { activeClient: SessionActiveClient }>
  | A<'session/activeClientRemoved', { clientId: string }>
  | A<'session/workingDirectorySet', { directory: URI }>
  | A<'session/workingDirectoryRemoved', { directory: URI }>
  | A<'session/workingDirectoryReplaced', { directory: URI; replacement: URI }>
  | A<'session/inputNeededSet', { request: SessionInputRequest }>
  | A<'session/inputNeededRemoved', { id: string }>
  | A<'session/customizationsChanged', { customizations: readonly Customization[] }>
  | A<'session/customizationToggled', { id: string; enablement: readonly Enablement[] }>
  | A<'session/customizationUpdated', { customization: Customization }>
  | A<'session/customizationRemoved', { id: string }>
  | A<'session/mcpServerStateChanged', { id: string; state: McpServerState; channel?: URI }>
  | A<'session/mcpServerStartRequested', { id: string }>
  | A<'session/mcpServerStopRequested', { id: string }>
  | A<'session/mcpServerBackgroundRequested', { id: string }>;

type Call<T extends string, F = object> = A<
  T,
  { turnId: string; toolCallId: string; _meta?: Meta } & F
>;
type Ending<T extends string, F = object> = A<
  T,
  { turnId: string; duration: number; _meta?: Meta } & F
>;

export type ToolCallConfirmed =
  | Call<
      'chat/toolCallConfirmed',
      { approved: true; confirmed: Confirmed; editedToolInput?: string; selectedOptionId?: string }
    >
  | Call<
      'chat/toolCallConfirmed',
      {
        approved: false;
        reason: 'denied' | 'skipped';
        userSuggestion?: Message;
        reasonMessage?: StringOrMarkdown;
        selectedOptionId?: string;
      }
    >;

export type ToolCallAction =
  | Call<
      'chat/toolCallStart',
      { toolName: string; displayName: string; intention?: string; contributor?: ToolContributor }
    >
  | Call<'chat/toolCallDelta', { content?: string; invocationMessage?: StringOrMarkdown }>
  | Call<
      'chat/toolCallReady',
      {
        invocationMessage: StringOrMarkdown;
        contributor?: ToolContributor;
        intention?: string;
        toolInput?: ToolInput;
        confirmationTitle?: StringOrMarkdown;
        riskAssessment?: RiskAssessment;
        edits?: { readonly items: readonly FileEdit[] };
        editable?: boolean;
        confirmed?: Confirmed;
        options?: readonly ToolCallOption[];
      }
    >
  | ToolCallConfirmed
  | Call<'chat/toolCallComplete', { result: ToolCallResult; requiresResultConfirmation?: boolean }>
  | Call<'chat/toolCallResultConfirmed', { approved: boolean }>
  | Call<'chat/toolCallContentChanged', { content: readonly ToolContent[] }>
  | Call<'chat/toolCallAuthRequired', { auth: McpAuthRequirement }>
  | Call<'chat/toolCallAuthResolved'>;

export type ChatAction =
  | A<
      'chat/turnStarted',
      {
        turnId: string;
        startedAt: string;
        message: Message;
        queuedMessageId?: string;
        _meta?: Meta;
      }
    >
  | A<'chat/delta', { turnId: string; partId: string; content: string; _meta?: Meta }>
  | A<'chat/reasoning', { turnId: string; partId: string; content: string; _meta?: Meta }>
  | A<'chat/responsePart', { turnId: string; part: ResponsePart; _meta?: Meta }>
  | ToolCallAction
  | Ending<'chat/turnComplete'>
  | Ending<'chat/turnCancelled'>
  | Ending<'chat/error', { part: ErrorPart }>
  | A<'chat/turnResume', { turnId: string }>
  | A<'chat/activityChanged', { activity?: string }>
  | A<'chat/backgroundWorkSet', { work: BackgroundWork }>
  | A<'chat/backgroundWorkRemoved', { id: string }>
  | A<'chat/movableChanged', { movable: boolean }>
  | A<'chat/changesetsChanged', { changesets?: readonly Changeset[] }>
  | A<'chat/canvasesChanged', { canvases?: readonly { readonly resource: URI }[] }>
  | A<'chat/workingDirectorySet', { directory: URI }>
  | A<'chat/workingDirectoryRemoved', { directory: URI }>
  | A<'chat/usage', { turnId: string; usage: UsageInfo; _meta?: Meta }>
  | A<'chat/pendingMessageSet', { kind: PendingKind; id: string; message: Message; _meta?: Meta }>
  | A<'chat/pendingMessageRemoved', { kind: PendingKind; id: string; _meta?: Meta }>
  | A<'chat/queuedMessagesReordered', { order: readonly string[]; _meta?: Meta }>
  | A<'chat/draftChanged', { draft?: Message }>
  | A<'chat/isReadChanged', { isRead: boolean }>
  | A<'chat/isArchivedChanged', { isArchived: boolean }>
  | A<'chat/inputRequested', { request: ChatInputRequest }>
  | A<
      'chat/inputAnswerChanged',
      { requestId: string; questionId: string; answer?: ChatInputAnswer }
    >
  | A<
      'chat/inputCompleted',
      { requestId: string; response: InputResponse; answers?: ChatInputAnswers }
    >
  | A<'chat/truncated', { turnId?: string; _meta?: Meta }>
  | A<'chat/turnsLoaded', { turns: readonly Turn[]; turnsNextCursor?: string }>;

export type TerminalAction =
  | A<'terminal/data', { data: string }>
  | A<'terminal/input', { data: string }>
  | A<'terminal/resized', { cols: number; rows: number }>
  | A<'terminal/claimed', { claim: TerminalClaim }>
  | A<'terminal/titleChanged', { title: string }>
  | A<'terminal/cwdChanged', { cwd: URI }>
  | A<'terminal/exited', { exitCode?: number }>
  | A<'terminal/cleared'>
  | A<'terminal/commandDetectionAvailable'>
  | A<'terminal/commandExecuted', { commandId: string; commandLine: string; timestamp: number }>
  | A<'terminal/commandFinished', { commandId: string; exitCode?: number; durationMs?: number }>;

export type ChangesetAction =
  | A<'changeset/statusChanged', { status: ChangesetStatus; error?: ErrorInfo }>
  | A<'changeset/fileSet', { file: ChangesetFile }>
  | A<'changeset/fileRemoved', { fileId: string }>
  | A<'changeset/filesReviewChanged', { files: readonly string[]; reviewed: boolean }>
  | A<
      'changeset/contentChanged',
      { files: readonly ChangesetFile[]; operations?: readonly ChangesetOperation[] }
    >
  | A<'changeset/operationsChanged', { operations?: readonly ChangesetOperation[] }>
  | A<
      'changeset/operationStatusChanged',
      { operationId: string; status: ChangesetOperation['status']; error?: ErrorInfo }
    >
  | A<'changeset/cleared'>;

export type AnnotationsAction =
  | A<'annotations/set', { annotation: Annotation }>
  | A<
      'annotations/updated',
      {
        annotationId: string;
        origin?: Annotation['origin'];
        resource?: URI;
        range?: Annotation['range'];
        resolved?: boolean;
      }
    >
  | A<'annotations/removed', { annotationId: string }>
  | A<'annotations/entrySet', { annotationId: string; entry: AnnotationEntry }>
  | A<'annotations/entryRemoved', { annotationId: string; entryId: string }>;

export type ResourceWatchAction = A<
  'resourceWatch/changed',
  {
    changes: {
      readonly items: readonly {
        readonly uri: URI;
        readonly type: 'added' | 'updated' | 'deleted';
      }[];
    };
  }
>;

export type CanvasAction = A<'canvas/stateChanged', { canvas: CanvasState }>;

/** An action under the prefix that the protocol leaves to private use; reducers ignore it. */
export type PrivateAction = { readonly type: `x-${string}`; readonly [key: string]: unknown };

export type AhpAction =
  | RootAction
  | SessionAction
  | ChatAction
  | TerminalAction
  | ChangesetAction
  | AnnotationsAction
  | ResourceWatchAction
  | CanvasAction
  | PrivateAction;

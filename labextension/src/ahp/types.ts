/**
 * The shapes of the Agent Host Protocol 1.0 that a client meets: states of channels, the parts
 * of a turn, the actions that change them, and the commands.
 *
 * Names are the protocol's. Everything is plain JSON and read-only: states change through reducers
 * alone. Unions are open: a value of a kind not listed here stays in the state as it came, so code
 * that switches on `kind`, `type` or `status` needs a default branch.
 */

export type URI = string;
export type Json =
  null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type Meta = Readonly<Record<string, unknown>>;

/** A value of a kind that this client does not know. It is kept, and drawn by a default branch. */
type Extension = `x-${string}`;

export type StringOrMarkdown = string | { readonly markdown: string };

/** An error as a host reports it in a session or a turn. */
export interface ErrorInfo {
  readonly errorType: string;
  readonly message: string;
  readonly stack?: string;
  readonly _meta?: Meta;
}

/** Bits of `status`. Test with `&`; `ACTIVITY` is the mask of what a reducer recomputes. */
export const Status = {
  Idle: 1,
  Error: 2,
  InProgress: 8,
  InputNeeded: 24,
  IsRead: 32,
  IsArchived: 64,
  ACTIVITY: 31
} as const;

// --- root -------------------------------------------------------------------------------------

export interface ConfigPropertySchema {
  readonly type: 'string' | 'number' | 'boolean' | 'array' | 'object';
  readonly title: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly enumLabels?: readonly string[];
  readonly enumDescriptions?: readonly string[];
  readonly readOnly?: boolean;
  readonly items?: ConfigPropertySchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, ConfigPropertySchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | ConfigPropertySchema;
}

export interface SessionConfigPropertySchema extends ConfigPropertySchema {
  readonly enumDynamic?: boolean;
  readonly sessionMutable?: boolean;
}

export interface ConfigSchema<P = ConfigPropertySchema> {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, P>>;
  readonly required?: readonly string[];
}

export type ConfigValues = Readonly<Record<string, unknown>>;

export interface Config<P = ConfigPropertySchema> {
  readonly schema: ConfigSchema<P>;
  readonly values: ConfigValues;
}

export interface ProtectedResourceMetadata {
  readonly resource: string;
  readonly resource_name?: string;
  readonly authorization_servers?: readonly string[];
  readonly scopes_supported?: readonly string[];
  readonly required?: boolean;
  readonly [key: string]: unknown;
}

export interface SessionModelInfo {
  readonly id: string;
  readonly provider: string;
  readonly name: string;
  readonly maxContextWindow?: number;
  readonly maxOutputTokens?: number;
  readonly maxPromptTokens?: number;
  readonly supportsVision?: boolean;
  readonly policyState?: 'enabled' | 'disabled' | 'unconfigured';
  readonly configSchema?: ConfigSchema;
  readonly _meta?: Meta;
}

/** Presence of a key means support; without it a client must not use the feature. */
export interface AgentCapabilities {
  readonly multipleChats?: { readonly fork?: boolean; readonly sideChat?: boolean };
  readonly multipleWorkingDirectories?: {
    readonly immutablePrimary?: boolean;
    readonly primaryReplacement?: boolean;
  };
}

export interface AgentInfo {
  readonly provider: string;
  readonly displayName: string;
  readonly description: string;
  readonly models: readonly SessionModelInfo[];
  readonly protectedResources?: readonly ProtectedResourceMetadata[];
  readonly customizations?: readonly Customization[];
  readonly capabilities?: AgentCapabilities;
  readonly _meta?: Meta;
}

export interface TerminalInfo {
  readonly resource: URI;
  readonly title: string;
  readonly claim: TerminalClaim;
  readonly lifecycle: TerminalLifecycle;
}

export interface RootState {
  readonly agents: readonly AgentInfo[];
  readonly activeSessions?: number;
  readonly terminals?: readonly TerminalInfo[];
  readonly config?: Config;
  readonly _meta?: Meta;
}

// --- sessions ---------------------------------------------------------------------------------

export interface ChangesSummary {
  readonly additions?: number;
  readonly deletions?: number;
  readonly files?: number;
}

export interface SessionMetadata {
  readonly provider: string;
  readonly title: string;
  readonly status: number;
  readonly activity?: string;
  readonly origin?: { readonly kind: 'automation'; readonly automation: URI; readonly run: URI };
  readonly project?: { readonly uri: URI; readonly displayName: string };
  readonly workingDirectories?: readonly URI[];
  readonly annotations?: {
    readonly resource: URI;
    readonly annotationCount: number;
    readonly entryCount: number;
  };
}

export interface SessionState extends SessionMetadata {
  readonly lifecycle: 'creating' | 'ready' | 'failed';
  readonly creationError?: ErrorInfo;
  readonly serverTools?: readonly ToolDefinition[];
  readonly activeClients: readonly SessionActiveClient[];
  readonly chats: readonly ChatSummary[];
  readonly defaultChat?: URI;
  readonly config?: Config<SessionConfigPropertySchema>;
  readonly customizations?: readonly Customization[];
  readonly changesets?: readonly Changeset[];
  readonly inputNeeded?: readonly SessionInputRequest[];
  readonly _meta?: Meta;
}

export interface SessionChatSummary {
  readonly resource: URI;
  readonly title: string;
  readonly origin?: ChatOrigin;
  readonly interactivity?: Interactivity;
  readonly status?: number;
  readonly changes?: ChangesSummary;
  /** ISO 8601. Said by this package's own host, beyond the protocol; so is `movable`. */
  readonly modifiedAt?: string;
  readonly movable?: boolean;
}

export interface SessionSummary extends SessionMetadata {
  readonly resource: URI;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly modifiedAt: string;
  readonly changes?: ChangesSummary;
  readonly chats?: readonly SessionChatSummary[];
  readonly defaultChat?: URI;
  readonly _meta?: Meta;
}

export interface SessionActiveClient {
  readonly clientId: string;
  readonly displayName?: string;
  readonly tools: readonly ToolDefinition[];
  readonly customizations?: readonly Customization[];
}

export interface ToolDefinition {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: unknown;
  readonly outputSchema?: unknown;
  readonly annotations?: {
    readonly title?: string;
    readonly readOnlyHint?: boolean;
    readonly destructiveHint?: boolean;
    readonly idempotentHint?: boolean;
    readonly openWorldHint?: boolean;
  };
  readonly _meta?: Meta;
}

export interface Enablement {
  readonly kind: 'session' | 'workspace' | 'global';
  readonly enabled: boolean;
  readonly uri?: URI;
}

export type McpServerState =
  | { readonly kind: 'starting'; readonly blocking?: boolean }
  | { readonly kind: 'ready' }
  | ({ readonly kind: 'authRequired' } & McpAuthRequirement)
  | { readonly kind: 'error'; readonly error: ErrorInfo }
  | { readonly kind: 'stopped' };

export interface McpAuthRequirement {
  readonly reason: 'required' | 'expired' | 'insufficientScope';
  readonly resource: ProtectedResourceMetadata;
  readonly oauthClient?: { readonly clientId: string; readonly clientSecret?: string };
  readonly requiredScopes?: readonly string[];
  readonly description?: string;
}

/** A plugin, directory, MCP server or a child of one; `type` says which fields are meant. */
export interface Customization {
  readonly type: string;
  readonly id: string;
  readonly uri: URI;
  readonly name: string;
  readonly children?: readonly Customization[];
  readonly enablement?: readonly Enablement[];
  readonly enabled?: boolean;
  readonly state?: McpServerState;
  readonly channel?: URI;
  readonly _meta?: Meta;
  readonly [key: string]: unknown;
}

export type SessionInputRequest =
  | {
      readonly id: string;
      readonly kind: 'chatInput';
      readonly chat: URI;
      readonly request: ChatInputRequest;
    }
  | {
      readonly id: string;
      readonly kind: 'toolConfirmation';
      readonly chat: URI;
      readonly turnId: string;
      readonly toolCall: ToolCallState;
    }
  | {
      readonly id: string;
      readonly kind: 'toolClientExecution';
      readonly chat: URI;
      readonly turnId: string;
      readonly clientId: string;
      readonly toolCall: ToolCallState;
    }
  | {
      readonly id: string;
      readonly kind: 'toolAuthentication';
      readonly chat: URI;
      readonly turnId: string;
      readonly toolCall: ToolCallState;
    }
  | { readonly id: string; readonly kind: Extension; readonly chat: URI };

// --- chats ------------------------------------------------------------------------------------

export type Interactivity = 'full' | 'read-only' | 'hidden';

export type ChatOrigin =
  | { readonly kind: 'user' }
  | { readonly kind: 'fork'; readonly chat: URI; readonly turnId: string }
  | {
      readonly kind: 'sideChat';
      readonly chat: URI;
      readonly turnId: string;
      readonly selection?: { readonly text: string; readonly responsePartId?: string };
    }
  | { readonly kind: 'tool'; readonly chat: URI; readonly toolCallId: string }
  | { readonly kind: Extension };

export interface ChatSummary {
  readonly resource: URI;
  readonly title: string;
  readonly status: number;
  readonly activity?: string;
  /** ISO 8601. */
  readonly modifiedAt: string;
  readonly changes?: ChangesSummary;
  readonly origin?: ChatOrigin;
  readonly movable?: boolean;
  readonly interactivity?: Interactivity;
  readonly workingDirectories?: readonly URI[];
}

export interface ChatState extends ChatSummary {
  readonly changesets?: readonly Changeset[];
  readonly backgroundWork?: readonly BackgroundWork[];
  readonly canvases?: readonly { readonly resource: URI }[];
  /** Ended turns, oldest first; older ones exist while `turnsNextCursor` is set. */
  readonly turns: readonly Turn[];
  readonly turnsNextCursor?: string;
  readonly activeTurn?: ActiveTurn;
  readonly steeringMessage?: PendingMessage;
  readonly queuedMessages?: readonly PendingMessage[];
  readonly draft?: Message;
  readonly _meta?: Meta;
}

export interface ActiveTurn {
  readonly id: string;
  readonly startedAt: string;
  readonly message: Message;
  readonly responseParts: readonly ResponsePart[];
  readonly usage?: UsageInfo;
}

export interface Turn {
  readonly id: string;
  readonly startedAt?: string;
  /** Milliseconds. */
  readonly duration?: number;
  readonly message: Message;
  readonly responseParts: readonly ResponsePart[];
  readonly usage?: UsageInfo;
  readonly state: 'complete' | 'cancelled' | 'error';
}

export interface UsageInfo {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly model?: string;
  readonly cacheReadTokens?: number;
  readonly _meta?: Meta;
}

export interface ModelSelection {
  readonly id: string;
  readonly config?: Readonly<Record<string, string | number | boolean | null>>;
}

export interface Message {
  readonly text: string;
  readonly origin: {
    readonly kind: 'user' | 'agent' | 'tool' | 'automation' | 'systemNotification' | Extension;
  };
  readonly attachments?: readonly Attachment[];
  readonly model?: ModelSelection;
  readonly agent?: { readonly uri: URI };
  readonly _meta?: Meta;
}

export interface PendingMessage {
  readonly id: string;
  readonly message: Message;
}

export type PendingKind = 'steering' | 'queued';

/** Zero based; characters are UTF-16 units. */
export interface TextPosition {
  readonly line: number;
  readonly character: number;
}

/** Half-open. */
export interface TextRange {
  readonly start: TextPosition;
  readonly end: TextPosition;
}

export interface TextSelection {
  readonly range: TextRange;
}

interface AttachmentCommon {
  readonly label: string;
  readonly range?: TextRange;
  readonly displayKind?: string;
  readonly _meta?: Meta;
}

export type Attachment =
  | (AttachmentCommon & { readonly type: 'simple'; readonly modelRepresentation?: string })
  | (AttachmentCommon & {
      readonly type: 'embeddedResource';
      /** Base64. */
      readonly data: string;
      readonly contentType: string;
      readonly selection?: TextSelection;
    })
  | (AttachmentCommon & {
      readonly type: 'resource';
      readonly uri: URI;
      readonly sizeHint?: number;
      readonly contentType?: string;
      readonly nonce?: string;
      readonly selection?: TextSelection;
    })
  | (AttachmentCommon & {
      readonly type: 'annotations';
      readonly resource: URI;
      readonly annotationIds?: readonly string[];
    })
  | (AttachmentCommon & {
      readonly type: 'chat';
      readonly resource: URI;
      readonly endTurn?: string;
    })
  | (AttachmentCommon & { readonly type: Extension });

export type BackgroundWork =
  | {
      readonly kind: 'shell';
      readonly id: string;
      readonly label: string;
      readonly startedAt: string;
      readonly command: string;
      readonly terminal?: URI;
      readonly _meta?: Meta;
    }
  | {
      readonly kind: 'subagent';
      readonly id: string;
      readonly label: string;
      readonly startedAt: string;
      readonly chat: URI;
      readonly _meta?: Meta;
    }
  | {
      readonly kind: Extension;
      readonly id: string;
      readonly label: string;
      readonly startedAt: string;
    };

// --- response parts ---------------------------------------------------------------------------

export interface ContentRef {
  readonly uri: URI;
  readonly sizeHint?: number;
  readonly contentType?: string;
  readonly nonce?: string;
}

export interface MarkdownPart {
  readonly kind: 'markdown';
  readonly id: string;
  readonly content: string;
}

export interface ReasoningPart {
  readonly kind: 'reasoning';
  readonly id: string;
  readonly content: string;
}

export interface ContentRefPart extends ContentRef {
  readonly kind: 'contentRef';
}

export interface ToolCallPart {
  readonly kind: 'toolCall';
  readonly toolCall: ToolCallState;
}

export interface SystemNotificationPart {
  readonly kind: 'systemNotification';
  readonly content: StringOrMarkdown;
  readonly _meta?: Meta;
}

export type InputResponse = 'accept' | 'decline' | 'cancel';

export interface InputRequestPart {
  readonly kind: 'inputRequest';
  readonly request: ChatInputRequest;
  /** Absent while the request is open. */
  readonly response?: InputResponse;
}

export interface ErrorPart {
  readonly kind: 'error';
  readonly error: ErrorInfo;
  readonly resumable?: boolean;
}

export interface UnknownPart {
  readonly kind: Extension;
}

export type ResponsePart =
  | MarkdownPart
  | ReasoningPart
  | ContentRefPart
  | ToolCallPart
  | SystemNotificationPart
  | InputRequestPart
  | ErrorPart
  | UnknownPart;

export interface FileEdit {
  readonly before?: { readonly uri: URI; readonly content: ContentRef };
  readonly after?: { readonly uri: URI; readonly content: ContentRef };
  readonly diff?: { readonly added?: number; readonly removed?: number };
}

export type ToolContent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'embeddedResource'; readonly data: string; readonly contentType: string }
  | ({ readonly type: 'resource' } & ContentRef)
  | ({ readonly type: 'fileEdit' } & FileEdit)
  | {
      readonly type: 'terminal';
      readonly resource: URI;
      readonly title: string;
      readonly isPty?: boolean;
      readonly result?: {
        readonly exitCode?: number;
        readonly preview?: string;
        readonly truncated?: boolean;
      };
    }
  | {
      readonly type: 'subagent';
      readonly resource: URI;
      readonly title: string;
      readonly agentName?: string;
      readonly description?: string;
    }
  | { readonly type: Extension };

// --- tool calls -------------------------------------------------------------------------------

export type ToolContributor =
  | { readonly kind: 'client'; readonly clientId: string }
  | { readonly kind: 'mcp'; readonly customizationId: string };

export interface ToolCallBase {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly displayName: string;
  readonly intention?: string;
  readonly contributor?: ToolContributor;
  readonly _meta?: Meta;
}

export type ToolInput = string | ContentRef;
export type Confirmed = 'not-needed' | 'user-action' | 'setting';

export interface ToolCallOption {
  readonly id: string;
  readonly label: string;
  readonly kind: 'approve' | 'deny';
  readonly group?: number;
}

export type RiskAssessment =
  | { readonly kind: 'judge'; readonly status: 'loading' }
  | {
      readonly kind: 'judge';
      readonly status: 'complete';
      readonly reason: string;
      readonly safety: number;
    };

export interface ToolCallResult {
  readonly success: boolean;
  readonly pastTenseMessage: StringOrMarkdown;
  readonly content?: readonly ToolContent[];
  readonly structuredContent?: unknown;
  readonly error?: { readonly message: string; readonly code?: string };
}

export interface StreamingToolCall extends ToolCallBase {
  readonly status: 'streaming';
  readonly partialInput?: string;
  readonly invocationMessage?: StringOrMarkdown;
}

export interface PendingConfirmationToolCall extends ToolCallBase {
  readonly status: 'pending-confirmation';
  readonly invocationMessage: StringOrMarkdown;
  readonly toolInput?: ToolInput;
  readonly confirmationTitle?: StringOrMarkdown;
  readonly riskAssessment?: RiskAssessment;
  readonly edits?: { readonly items: readonly FileEdit[] };
  readonly editable?: boolean;
  readonly options?: readonly ToolCallOption[];
}

interface ConfirmedToolCall extends ToolCallBase {
  readonly invocationMessage: StringOrMarkdown;
  readonly toolInput?: ToolInput;
  readonly confirmed: Confirmed;
  readonly selectedOption?: ToolCallOption;
}

export interface RunningToolCall extends ConfirmedToolCall {
  readonly status: 'running';
  readonly content?: readonly ToolContent[];
}

export interface AuthRequiredToolCall extends ConfirmedToolCall {
  readonly status: 'auth-required';
  readonly auth: McpAuthRequirement;
  readonly content?: readonly ToolContent[];
}

export interface PendingResultToolCall extends ConfirmedToolCall, ToolCallResult {
  readonly status: 'pending-result-confirmation';
}

export interface CompletedToolCall extends ConfirmedToolCall, ToolCallResult {
  readonly status: 'completed';
}

export interface CancelledToolCall extends ToolCallBase {
  readonly status: 'cancelled';
  readonly invocationMessage: StringOrMarkdown;
  readonly toolInput?: ToolInput;
  readonly reason: 'denied' | 'skipped' | 'result-denied';
  readonly reasonMessage?: StringOrMarkdown;
  readonly userSuggestion?: Message;
  readonly selectedOption?: ToolCallOption;
}

export type ToolCallState =
  | StreamingToolCall
  | PendingConfirmationToolCall
  | RunningToolCall
  | AuthRequiredToolCall
  | PendingResultToolCall
  | CompletedToolCall
  | CancelledToolCall;

// --- input requests ---------------------------------------------------------------------------

interface QuestionCommon {
  readonly id: string;
  readonly title?: string;
  readonly message: string;
  readonly required?: boolean;
}

export interface QuestionOption {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  readonly recommended?: boolean;
}

export type ChatInputQuestion =
  | (QuestionCommon & {
      readonly kind: 'text';
      readonly format?: string;
      readonly min?: number;
      readonly max?: number;
      readonly defaultValue?: string;
    })
  | (QuestionCommon & {
      readonly kind: 'number' | 'integer';
      readonly min?: number;
      readonly max?: number;
      readonly defaultValue?: number;
    })
  | (QuestionCommon & { readonly kind: 'boolean'; readonly defaultValue?: boolean })
  | (QuestionCommon & {
      readonly kind: 'single-select';
      readonly options: readonly QuestionOption[];
      readonly allowFreeformInput?: boolean;
    })
  | (QuestionCommon & {
      readonly kind: 'multi-select';
      readonly options: readonly QuestionOption[];
      readonly allowFreeformInput?: boolean;
      readonly min?: number;
      readonly max?: number;
    })
  | (QuestionCommon & { readonly kind: Extension });

export type ChatInputValue =
  | { readonly kind: 'text'; readonly value: string }
  | { readonly kind: 'number'; readonly value: number }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | {
      readonly kind: 'selected';
      readonly value: string;
      readonly freeformValues?: readonly string[];
    }
  | {
      readonly kind: 'selected-many';
      readonly value: readonly string[];
      readonly freeformValues?: readonly string[];
    };

export type ChatInputAnswer =
  | { readonly state: 'draft' | 'submitted'; readonly value: ChatInputValue }
  | { readonly state: 'skipped'; readonly freeformValues?: readonly string[] };

export type ChatInputAnswers = Readonly<Record<string, ChatInputAnswer>>;

export interface ChatInputRequest {
  readonly id: string;
  readonly message?: StringOrMarkdown;
  readonly url?: string;
  readonly questions?: readonly ChatInputQuestion[];
  readonly answers?: ChatInputAnswers;
}

// --- other channels ---------------------------------------------------------------------------

export type TerminalClaim =
  | { readonly kind: 'client'; readonly clientId: string }
  | {
      readonly kind: 'session';
      readonly session: URI;
      readonly chat: URI;
      readonly turnId?: string;
      readonly toolCallId?: string;
    };

export type TerminalLifecycle =
  { readonly status: 'running' } | { readonly status: 'exited'; readonly exitCode?: number };

export interface UnclassifiedOutput {
  readonly type: 'unclassified';
  readonly value: string;
}

export interface CommandOutput {
  readonly type: 'command';
  readonly commandId: string;
  readonly commandLine: string;
  readonly output: string;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly isComplete: boolean;
  readonly exitCode?: number;
  readonly durationMs?: number;
}

export interface TerminalState {
  readonly title: string;
  readonly cwd?: URI;
  readonly cols?: number;
  readonly rows?: number;
  readonly content: readonly (UnclassifiedOutput | CommandOutput)[];
  readonly lifecycle: TerminalLifecycle;
  readonly claim: TerminalClaim;
  readonly supportsCommandDetection?: boolean;
  readonly isPty?: boolean;
}

/** A catalogue entry; the state of one is behind `uriTemplate`. */
export interface Changeset {
  readonly label: string;
  readonly uriTemplate: string;
  readonly description?: string;
  readonly changeKind: string;
  readonly capabilities?: { readonly review?: object };
}

export interface ChangesetFile {
  readonly id: string;
  readonly edit: FileEdit;
  readonly reviewed?: boolean;
  readonly _meta?: Meta;
}

export interface ChangesetOperation {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  readonly scopes: readonly ('changeset' | 'resource' | 'range')[];
  readonly confirmation?: unknown;
  readonly icon?: string;
  readonly group?: string;
  readonly status: 'idle' | 'running' | 'error' | 'disabled';
  readonly error?: ErrorInfo;
}

export type ChangesetStatus = 'computing' | 'ready' | 'error' | 'recomputing';

export interface ChangesetState {
  readonly status: ChangesetStatus;
  readonly error?: ErrorInfo;
  readonly files: readonly ChangesetFile[];
  readonly operations?: readonly ChangesetOperation[];
}

export interface AnnotationEntry {
  readonly id: string;
  readonly text: string;
  readonly _meta?: Meta;
}

export interface Annotation {
  readonly id: string;
  readonly origin: { readonly session: URI; readonly chat?: URI; readonly turnId?: string };
  readonly resource: URI;
  readonly range?: TextSelection['range'];
  readonly resolved: boolean;
  readonly entries: readonly AnnotationEntry[];
  readonly _meta?: Meta;
}

export interface AnnotationsState {
  readonly annotations: readonly Annotation[];
}

export interface ResourceWatchState {
  readonly root: URI;
  readonly recursive: boolean;
  readonly excludes?: { readonly items: readonly string[] };
  readonly includes?: { readonly items: readonly string[] };
}

export interface CanvasState {
  readonly instanceId: string;
  readonly extensionId: string;
  readonly extensionName?: string;
  readonly canvasId: string;
  readonly title?: string;
  readonly status?: string;
  /** Absolute http(s) address; absent once its provider is gone. */
  readonly url?: string;
}

/** The state of a channel, by its kind. */
export interface States {
  root: RootState;
  session: SessionState;
  chat: ChatState;
  terminal: TerminalState;
  changeset: ChangesetState;
  annotations: AnnotationsState;
  resourceWatch: ResourceWatchState;
  canvas: CanvasState;
}

export type ChannelKind = keyof States;
export type AnyState = States[ChannelKind];

// --- commands and notifications ---------------------------------------------------------------

export interface Snapshot {
  readonly resource: URI;
  readonly state: unknown;
  readonly fromSeq: number;
}

export interface ActionOrigin {
  readonly clientId: string;
  readonly clientSeq: number;
}

/** An action as the host sends it. A refusal carries `rejectionReason` and is never applied. */
export interface ActionEnvelope {
  readonly channel: URI;
  readonly action: { readonly type: string; readonly [key: string]: unknown };
  readonly serverSeq: number;
  readonly origin?: ActionOrigin | null;
  readonly rejectionReason?: string | null;
}

export interface Implementation {
  readonly name: string;
  readonly version?: string;
  readonly title?: string;
}

export interface InitializeResult {
  readonly protocolVersion: string;
  readonly serverSeq: number;
  readonly serverInfo?: Implementation;
  readonly snapshots: readonly Snapshot[];
  readonly defaultDirectory?: URI;
  readonly completionTriggerCharacters?: readonly string[];
  readonly terminalCommandPrefix?: string;
  readonly automations?: object;
  readonly _meta?: Meta;
}

export type ReconnectResult =
  | {
      readonly type: 'replay';
      readonly actions: readonly ActionEnvelope[];
      readonly missing: readonly URI[];
    }
  | { readonly type: 'snapshot'; readonly snapshots: readonly Snapshot[] };

export interface CreateSessionParams {
  /** Chosen by the caller; a new one is made when absent. */
  readonly channel?: URI;
  readonly provider?: string;
  readonly workingDirectories?: readonly URI[];
  readonly config?: ConfigValues;
  readonly activeClient?: SessionActiveClient;
  readonly progressToken?: string;
  readonly _meta?: Meta;
}

export type ChatSource =
  | { readonly kind: 'fork'; readonly chat: URI; readonly turnId: string }
  | {
      readonly kind: 'sideChat';
      readonly chat: URI;
      readonly turnId: string;
      readonly selection?: { readonly text: string; readonly responsePartId?: string };
    };

export interface CreateChatParams {
  /** Chosen by the caller; a new one is made when absent. */
  readonly chat?: URI;
  readonly initialMessage?: Message;
  readonly source?: ChatSource;
  readonly workingDirectories?: readonly URI[];
}

export interface ListSessionsResult {
  readonly items: readonly SessionSummary[];
  readonly nextCursor?: string;
  readonly _meta?: Meta;
}

export interface ResolveSessionConfigParams {
  readonly provider?: string;
  readonly workingDirectory?: URI;
  readonly config?: ConfigValues;
}

export interface CompletionItem {
  readonly insertText: string;
  readonly rangeStart?: number;
  readonly rangeEnd?: number;
  /** Send it back unchanged, `_meta` included, in the message that uses the item. */
  readonly attachment: Attachment;
}

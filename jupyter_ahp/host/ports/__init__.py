"""What the host needs from others, as contracts: agents, a store, a transport.

Backends report through `TurnSink`, never in actions, so a wrong sequence cannot be written (design: "Backends report
through a typed sink"). Data classes here, plain JSON on the wire. `jupyter_ahp.agents.base` re-exports the part that
an agent's author needs.
"""

from __future__ import annotations

from .agents import (
    RESUME_POINT,
    Agent,
    Answer,
    Block,
    Capabilities,
    Command,
    Confirmation,
    Conversation,
    ConversationHost,
    Found,
    ImageBlock,
    Model,
    PathBlock,
    Probe,
    Prompt,
    Start,
    Steering,
    SteeringRefused,
    TextBlock,
    ToolCall,
    TurnFailed,
    TurnOver,
    TurnSink,
    Worker,
)
from .guarded import GuardedTool
from .people import Principal
from .plugins import (
    Canvas,
    CanvasError,
    CommandHandler,
    CommandRun,
    Event,
    EventName,
    Extensible,
    Listener,
    ShowHandler,
    ShowRequest,
    Undo,
)
from .store import ChatRecord, SessionRecord, Store, StoredChat, StoreError, Unreadable
from .terminals import Launch, Pty, Ptys
from .tools import Approvals, Effects, Tool, ToolFactory, ToolResult, TurnContext
from .wire import Frame, Json, Transport
from .works import Heard, Job, WorkingSession, Works

__all__ = [
    "RESUME_POINT",
    "Agent",
    "Answer",
    "Approvals",
    "Block",
    "Canvas",
    "CanvasError",
    "Capabilities",
    "ChatRecord",
    "Command",
    "CommandHandler",
    "CommandRun",
    "Confirmation",
    "Conversation",
    "ConversationHost",
    "Effects",
    "Event",
    "EventName",
    "Extensible",
    "Found",
    "Frame",
    "GuardedTool",
    "Heard",
    "ImageBlock",
    "Job",
    "Json",
    "Launch",
    "Listener",
    "Model",
    "PathBlock",
    "Principal",
    "Probe",
    "Prompt",
    "Pty",
    "Ptys",
    "SessionRecord",
    "ShowHandler",
    "ShowRequest",
    "Start",
    "Steering",
    "SteeringRefused",
    "Store",
    "StoreError",
    "StoredChat",
    "TextBlock",
    "Tool",
    "ToolCall",
    "ToolFactory",
    "ToolResult",
    "Transport",
    "TurnContext",
    "TurnFailed",
    "TurnOver",
    "TurnSink",
    "Undo",
    "Unreadable",
    "Worker",
    "WorkingSession",
    "Works",
]

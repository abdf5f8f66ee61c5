"""What each backend was seen to do, by the tests that show it: the table in `docs/backends.md`.

    python -m tests.agents.matrix     writes it there

A cell is the tests that show it, or why there are none. That they exist, and that the table in the docs is this one, is
tested; that they pass is what a run of them says.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs" / "backends.md"
BEGIN, END = "<!-- made by python -m tests.agents.matrix -->", "<!-- until here -->"

BACKENDS: Final = ("assistant", "claude", "pi", "ACP", "bot")


@dataclass(frozen=True)
class No:
    """What we do where a backend cannot, and the tests that show that."""

    instead: str
    tests: str = ""


OPENCODE = "acp/test_opencode.py::test_turns_tools_approvals_stops_and_its_memory"
CLAUDE_FAILS = "claude/test_failures.py::test_failures_are_said_in_words_and_can_be_resumed"
PI_FAILS = "pi/test_pi.py::test_what_the_models_api_refuses_is_said_and_can_be_tried_again"
ACP_FAILS = "acp/test_turns.py::test_what_goes_wrong_with_the_model_is_said"
NO_STEERING = No("refused, in words; queue it", "acp/test_turns.py::test_G4_it_takes_no_steering")
IN_PROCESS = No("runs in the server")

MATRIX: Final[dict[str, tuple[str | No, str | No, str | No, str | No]]] = {
    "a streamed turn": (
        "test_assistant.py::test_an_answer_streams_piece_by_piece",
        "claude/test_turns.py::test_an_answer_is_streamed_and_counted",
        "pi/test_pi.py::test_B1_a_turn_is_streamed_with_reasoning_and_usage_and_remembered",
        f"acp/test_turns.py::test_an_answer_streams_with_its_reasoning_and_what_was_used {OPENCODE}",
    ),
    "a call that is allowed": (
        "test_assistant_at_work.py::test_what_is_allowed_once_is_done_and_asks_again",
        "claude/test_turns.py::test_a_call_is_approved",
        "pi/test_pi.py::test_a_tool_of_its_own_is_asked_for_and_allowed",
        f"acp/test_approvals.py::test_an_edit_is_shown_before_it_is_allowed {OPENCODE}",
    ),
    "a call that is denied, with a reason": (
        "test_assistant_at_work.py::test_what_is_denied_is_not_done_and_the_model_is_told_why",
        "claude/test_turns.py::test_a_call_is_denied_with_a_reason",
        "pi/test_pi.py::test_a_denial_and_its_reason_reach_the_model",
        No(
            "denied; ACP has no place for the reason",
            f"acp/test_approvals.py::test_a_denial_is_heard {OPENCODE}",
        ),
    ),
    "allowed for the session": (
        "test_assistant_at_work.py::test_what_is_allowed_for_the_session_asks_no_more",
        "claude/test_turns.py::test_what_is_allowed_for_the_session_is_not_asked_again",
        "pi/test_pi.py::test_a_tool_that_was_allowed_for_the_session_is_not_asked_for_again_after_a_restart",
        f"acp/test_approvals.py::test_allowed_for_the_session_is_not_asked_again {OPENCODE}",
    ),
    "a stop before the first byte": (
        "test_assistant.py::test_stop_before_the_first_word_closes_the_connection",
        "claude/test_steering.py::test_B8_a_stop_before_the_first_byte",
        "pi/test_pi.py::test_B2_a_stop_before_the_first_byte",
        f"acp/test_stops.py::test_before_the_first_word {OPENCODE}",
    ),
    "a stop in the text": (
        "test_assistant.py::test_stop_closes_the_connection_within_a_second",
        "claude/test_steering.py::test_B8_a_stop_in_the_text_keeps_what_was_said",
        "pi/test_pi.py::test_a_stop_in_the_text_keeps_it_and_aborts_the_request",
        f"acp/test_stops.py::test_in_the_text {OPENCODE}",
    ),
    "a stop in a tool": (
        "test_assistant_at_work.py::test_T5_a_stop_in_a_command_ends_it",
        "claude/test_steering.py::test_B8_a_stop_in_a_tool",
        "pi/test_pi.py::test_a_stop_in_a_tool_ends_what_it_runs",
        "acp/test_stops.py::test_in_a_tool",
    ),
    "a stop in an approval": (
        "test_assistant_at_work.py::test_T5_a_stop_in_an_approval_does_nothing_of_it",
        "claude/test_steering.py::test_B8_a_stop_while_a_call_waits_for_a_person",
        "pi/test_pi.py::test_a_stop_in_an_approval",
        f"acp/test_approvals.py::test_a_stop_answers_with_cancelled {OPENCODE}",
    ),
    "steering before the first byte": (
        "test_steering.py::test_G1_one_that_comes_before_the_first_request_is_in_it",
        "claude/test_steering.py::test_B6_steering_before_the_first_byte",
        "pi/test_pi.py::test_B14_steering_before_the_first_byte_and_in_the_text_is_answered_in_the_same_turn",
        NO_STEERING,
    ),
    "steering in the text": (
        No(
            "read before the next step; else the next turn",
            "test_steering.py::test_B15_a_run_that_settles_before_a_request_reads_it_gives_it_back",
        ),
        "claude/test_steering.py::test_B5_steering_during_the_last_text_is_answered_in_the_same_turn",
        "pi/test_pi.py::test_B14_steering_before_the_first_byte_and_in_the_text_is_answered_in_the_same_turn",
        NO_STEERING,
    ),
    "steering in a tool": (
        "test_assistant_at_work.py::test_G1_B15_steering_in_a_call_is_behind_its_result",
        "claude/test_steering.py::test_B4_steering_is_taken_at_the_next_tool_call",
        "pi/test_pi.py::test_B14_steering_in_a_tool_is_read_before_the_next_call_of_the_model",
        NO_STEERING,
    ),
    "steering in an approval": (
        "test_assistant_at_work.py::test_G1_B15_steering_in_a_call_is_behind_its_result",
        "claude/test_steering.py::test_steering_while_a_call_waits_for_a_person",
        "pi/test_pi.py::test_B14_steering_while_a_call_waits_for_a_person",
        NO_STEERING,
    ),
    "steering that is taken back": (
        "test_assistant_in_host.py::test_G7_what_is_taken_back_in_time_is_never_seen",
        "claude/test_steering.py::test_G7_steering_is_taken_back_before_it_is_read",
        "pi/test_pi.py::test_B14_steering_that_is_taken_back_is_not_read_where_pi_can_forget_it",
        NO_STEERING,
    ),
    "a queue": (
        "test_assistant_in_host.py::test_Q2_each_queued_message_sees_the_answers_before_it",
        "claude/test_steering.py::test_Q2_queued_messages_are_turns_of_their_own",
        "pi/test_pi.py::test_Q2_what_is_queued_runs_behind",
        "acp/test_turns.py::test_Q2_B1_what_is_queued_is_sent_when_the_turn_in_front_ends",
    ),
    "a fork at any turn": (
        "test_assistant_in_host.py::test_S2_a_forks_model_is_told_the_copied_turns_and_no_others",
        "claude/test_conversations.py::test_S3_a_fork_goes_on_at_its_turn_and_leaves_its_source_alone",
        "pi/test_pi.py::test_S3_a_fork_goes_on_at_its_point_and_leaves_the_other_alone",
        No(
            "a copy at the end; else told what was said",
            "acp/test_branches.py::test_S3_a_fork_at_the_end_is_a_copy_of_the_session "
            "acp/test_branches.py::test_S4_a_fork_at_an_earlier_turn_is_told_what_was_said",
        ),
    ),
    "a rewind": (
        "test_assistant_in_host.py::test_X1_the_model_does_not_see_what_was_cut_and_sees_what_comes_back",
        "claude/test_conversations.py::test_X1_a_rewind_forgets_what_came_behind",
        "pi/test_pi.py::test_X1_a_rewind_is_forgotten_by_pi_too_also_after_a_restart",
        No("told what is left", "acp/test_branches.py::test_X1_what_a_rewind_cut_is_not_known_any_more"),
    ),
    "its program is killed": (
        IN_PROCESS,
        "claude/test_failures.py::test_a_killed_cli_is_said_and_the_conversation_goes_on",
        "pi/test_pi.py::test_a_pi_that_is_killed_ends_its_turn_and_the_next_goes_on",
        f"acp/test_life.py::test_dead_in_a_turn_it_says_why_and_the_turn_can_be_resumed {OPENCODE}",
    ),
    "the server is restarted": (
        "test_assistant_in_host.py::test_a_restart_forgets_nothing",
        "claude/test_conversations.py::test_a_restarted_host_goes_on_with_its_memory",
        "pi/test_pi.py::test_a_restarted_host_goes_on_with_what_pi_remembers",
        f"acp/test_life.py::test_a_restart_of_the_server_forgets_nothing {OPENCODE}",
    ),
    "401, 429, 500": (
        "test_assistant_failures.py::test_401_names_the_variable_and_the_endpoint_and_never_the_key "
        "test_assistant_failures.py::test_a_server_that_stays_busy_fails_resumably",
        CLAUDE_FAILS,
        PI_FAILS,
        f"{ACP_FAILS} {OPENCODE}",
    ),
    "a stream that is cut": (
        "test_assistant_failures.py::test_a_cut_answer_keeps_what_came_and_can_be_resumed",
        "claude/test_failures.py::test_what_came_twice_after_a_cut_is_marked",
        "pi/test_pi.py::test_a_stream_that_is_cut_is_said",
        ACP_FAILS,
    ),
    "images in": (
        "test_assistant.py::test_A1_an_image_goes_to_a_model_that_sees",
        "claude/test_turns.py::test_A1_attachments_stand_before_the_words",
        "pi/test_pi.py::test_A1_an_image_goes_in_as_an_image",
        f"acp/test_turns.py::test_A1_pictures_texts_and_paths_reach_the_model {OPENCODE}",
    ),
    "images out": (
        "test_assistant_mcp.py::test_a_picture_is_for_the_model_and_for_people",
        "claude/test_turns.py::test_pictures_come_back_from_tools",
        "pi/test_pi.py::test_A1_an_image_that_it_reads_is_shown_and_seen",
        "acp/test_turns.py::test_pictures_that_it_makes_are_shown",
    ),
    "a worker that asks": (
        "test_assistant_workers.py::test_W4_what_a_worker_asks_is_answered_in_its_chat",
        "claude/test_workers.py::test_W4_a_worker_asks_in_its_own_chat",
        No("pi has no workers"),
        "acp/test_workers.py::test_W1_W4_a_worker_has_a_chat_and_asks_there",
    ),
    "tools of the host": (
        "test_assistant_tools.py::test_a_call_is_run_and_the_model_goes_on_from_its_result",
        "claude/test_tools.py::test_a_tool_of_the_host_is_called",
        "pi/test_pi.py::test_a_tool_of_the_hosts_is_called_by_its_model",
        f"acp/test_tools.py::test_a_tool_of_the_hosts_is_listed_and_called {OPENCODE}",
    ),
}

PROGRAMS = "bot/test_programs.py::test_B16_a_program_works_asks_is_steered_and_goes_on_after_a_restart"
BEHIND = "in the same turn, behind what the work does"

BOT: Final[dict[str, str | No]] = {
    "a streamed turn": "bot/test_work.py::test_the_works_answer_streams_in_the_bots_chat_part_for_part",
    "a call that is allowed": PROGRAMS,
    "a call that is denied, with a reason": (
        "bot/test_work.py::test_an_approval_is_asked_and_answered_in_the_bots_chat"
    ),
    "allowed for the session": (
        "bot/test_work.py"
        "::test_its_tools_are_those_of_the_bots_turn_and_what_is_allowed_holds_for_the_bots_session"
    ),
    "a stop before the first byte": "bot/test_steering.py::test_a_stop_before_the_work_began_sends_nothing",
    "a stop in the text": (
        "bot/test_steering.py::test_G6_a_stop_takes_it_out_and_stops_the_work_and_nothing_runs_behind_it"
    ),
    "a stop in a tool": "bot/test_steering.py::test_a_stop_in_a_tool_ends_the_tool",
    "a stop in an approval": "bot/test_work.py::test_a_stop_ends_what_waits_for_a_person_too",
    "steering before the first byte": No(
        BEHIND,
        "bot/test_steering.py::test_B16_steering_that_came_before_the_work_began_is_handed_over_when_it_has",
    ),
    "steering in the text": No(
        BEHIND, "bot/test_steering.py::test_B16_it_is_queued_behind_the_works_turn_and_the_open_turn_goes_on"
    ),
    "steering in a tool": No(
        BEHIND, "bot/test_steering.py::test_B16_steering_in_a_tool_waits_behind_what_the_work_does"
    ),
    "steering in an approval": No(BEHIND, PROGRAMS),
    "steering that is taken back": "bot/test_steering.py::test_G7_one_that_is_taken_back_in_time_is_never_sent",
    "a queue": "bot/test_steering.py::test_Q_what_is_queued_in_the_bots_chat_waits_for_its_whole_turn",
    "a fork at any turn": "bot/test_work.py::test_S3_a_fork_begins_with_a_copy_of_the_work",
    "a rewind": "bot/test_work.py::test_X1_a_rewind_takes_the_work_back_and_undoing_it_brings_it_back",
    "its program is killed": "bot/test_programs.py::test_a_program_that_dies_is_told_in_words",
    "the server is restarted": f"bot/test_work.py::test_after_a_restart_the_work_goes_on_where_it_was {PROGRAMS}",
    "401, 429, 500": "bot/test_real.py::test_what_the_models_api_refuses_is_said_and_can_be_tried_again",
    "a stream that is cut": "bot/test_real.py::test_a_stream_that_is_cut_keeps_what_came_and_is_resumed",
    "images in": "bot/test_work.py::test_what_a_message_carries_reaches_the_work",
    "images out": "bot/test_work.py::test_the_works_answer_streams_in_the_bots_chat_part_for_part",
    "a worker that asks": (
        "bot/test_programs.py::test_W4_what_a_programs_worker_asks_is_answered_in_a_chat_of_the_bots_session"
    ),
    "tools of the host": (
        "bot/test_work.py"
        "::test_its_tools_are_those_of_the_bots_turn_and_what_is_allowed_holds_for_the_bots_session"
    ),
}
"""A bot can what the agent can that works for it, but for steering, which is the bot's own."""


def rows() -> dict[str, tuple[str | No, ...]]:
    """Every scenario with a cell for each backend."""
    return {scenario: (*row, BOT[scenario]) for scenario, row in MATRIX.items()}


def named() -> set[str]:
    """The tests that cells name."""
    cells = [cell for row in rows().values() for cell in row]
    return {test for cell in cells for test in (cell.tests if isinstance(cell, No) else cell).split()}


def there(test: str) -> bool:
    """Whether there is a test of that name."""
    file, _, name = test.partition("::")
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in tree.body
    )


def table() -> str:
    lines = ["| | " + " | ".join(BACKENDS) + " |", "|---" * (len(BACKENDS) + 1) + "|"]
    for scenario, row in rows().items():
        cells = [cell.instead if isinstance(cell, No) else "yes" for cell in row]
        lines.append(f"| {scenario} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def in_docs() -> str:
    """The docs with the table in its place."""
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    DOCS.write_text(in_docs(), encoding="utf-8")

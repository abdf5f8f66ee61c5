/** The reducer of a terminal (AHP 5.1). What is typed changes nothing here: the shell echoes it. */

import type { AhpAction } from '../actions';
import type { TerminalState } from '../types';
import { compact, replaceAt, withKey, withKeys } from './shared';

function output(state: TerminalState, data: string): TerminalState {
  if (data === '') {
    return state;
  }
  const content = state.content ?? [];
  const tail = content.at(-1);
  const last = content.length - 1;
  if (tail?.type === 'command' && !tail.isComplete) {
    return {
      ...state,
      content: replaceAt(content, last, { ...tail, output: tail.output + data })
    };
  }
  if (tail?.type === 'unclassified') {
    return { ...state, content: replaceAt(content, last, { ...tail, value: tail.value + data }) };
  }
  return { ...state, content: [...content, { type: 'unclassified', value: data }] };
}

export function terminalReducer(state: TerminalState, action: AhpAction): TerminalState {
  switch (action.type) {
    case 'terminal/data':
      return output(state, action.data);
    case 'terminal/resized':
      return withKeys(state, { cols: action.cols, rows: action.rows });
    case 'terminal/claimed':
      return withKey(state, 'claim', action.claim);
    case 'terminal/titleChanged':
      return withKey(state, 'title', action.title);
    case 'terminal/cwdChanged':
      return withKey(state, 'cwd', action.cwd);
    case 'terminal/exited':
      return {
        ...state,
        lifecycle: compact({ status: 'exited', exitCode: action.exitCode })
      };
    case 'terminal/cleared':
      return state.content?.length === 0 ? state : { ...state, content: [] };
    case 'terminal/commandDetectionAvailable':
      return withKey(state, 'supportsCommandDetection', true);
    case 'terminal/commandExecuted': {
      const { commandId, commandLine, timestamp } = action;
      return {
        ...state,
        supportsCommandDetection: true,
        content: [
          ...(state.content ?? []),
          { type: 'command', commandId, commandLine, output: '', timestamp, isComplete: false }
        ]
      };
    }
    case 'terminal/commandFinished': {
      const index =
        state.content?.findIndex(
          part => part.type === 'command' && part.commandId === action.commandId
        ) ?? -1;
      const part = state.content?.[index];
      if (part?.type !== 'command') {
        return state;
      }
      const finished = compact({
        ...part,
        isComplete: true,
        exitCode: action.exitCode,
        durationMs: action.durationMs
      });
      return { ...state, content: replaceAt(state.content, index, finished) };
    }
    default:
      return state;
  }
}

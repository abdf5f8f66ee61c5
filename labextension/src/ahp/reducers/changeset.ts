/** The reducer of a changeset (AHP 5.5). */

import type { AhpAction } from '../actions';
import type { ChangesetState } from '../types';
import { replaceAt, upsert, withKey, withKeys, without } from './shared';

export function changesetReducer(state: ChangesetState, action: AhpAction): ChangesetState {
  switch (action.type) {
    case 'changeset/statusChanged':
      return withKeys(state, {
        status: action.status,
        error: action.status === 'error' ? action.error : undefined
      });
    case 'changeset/fileSet':
      return {
        ...state,
        files: upsert(state.files, action.file, file => file.id === action.file.id)
      };
    case 'changeset/fileRemoved':
      return withKey(
        state,
        'files',
        without(state.files, file => file.id === action.fileId)
      );
    case 'changeset/filesReviewChanged': {
      const listed = new Set(action.files);
      const changed = state.files?.some(
        file => listed.has(file.id) && file.reviewed !== action.reviewed
      );
      return changed
        ? {
            ...state,
            files: state.files.map(file =>
              listed.has(file.id) ? withKey(file, 'reviewed', action.reviewed) : file
            )
          }
        : state;
    }
    case 'changeset/contentChanged':
      return withKeys(state, {
        files: action.files,
        operations: action.operations ?? state.operations
      });
    case 'changeset/operationsChanged':
      return withKey(state, 'operations', action.operations);
    case 'changeset/operationStatusChanged': {
      const index = state.operations?.findIndex(entry => entry.id === action.operationId) ?? -1;
      if (!state.operations || index < 0) {
        return state;
      }
      const operation = withKeys(state.operations[index]!, {
        status: action.status,
        error: action.status === 'error' ? action.error : undefined
      });
      return withKey(state, 'operations', replaceAt(state.operations, index, operation));
    }
    case 'changeset/cleared':
      return state.files?.length === 0 ? state : { ...state, files: [] };
    default:
      return state;
  }
}

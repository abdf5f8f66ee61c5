/** The reducer of a session's annotations (AHP 5.6). */

import type { AhpAction } from '../actions';
import type { Annotation, AnnotationsState } from '../types';
import { compact, replaceAt, upsert, withKey, withKeys, without } from './shared';

function withAnnotation(
  state: AnnotationsState,
  id: string,
  change: (annotation: Annotation) => Annotation
): AnnotationsState {
  const index = state.annotations?.findIndex(annotation => annotation.id === id) ?? -1;
  return index < 0
    ? state
    : withKey(
        state,
        'annotations',
        replaceAt(state.annotations, index, change(state.annotations[index]!))
      );
}

export function annotationsReducer(state: AnnotationsState, action: AhpAction): AnnotationsState {
  switch (action.type) {
    case 'annotations/set':
      return {
        ...state,
        annotations: upsert(
          state.annotations,
          action.annotation,
          annotation => annotation.id === action.annotation.id
        )
      };
    case 'annotations/updated': {
      const { origin, resource, range, resolved } = action;
      return withAnnotation(state, action.annotationId, annotation =>
        withKeys(annotation, compact({ origin, resource, range, resolved }))
      );
    }
    case 'annotations/removed':
      return withKey(
        state,
        'annotations',
        without(state.annotations, annotation => annotation.id === action.annotationId)
      );
    case 'annotations/entrySet':
      return withAnnotation(state, action.annotationId, annotation => ({
        ...annotation,
        entries: upsert(annotation.entries, action.entry, entry => entry.id === action.entry.id)
      }));
    case 'annotations/entryRemoved':
      return withAnnotation(state, action.annotationId, annotation =>
        withKey(
          annotation,
          'entries',
          without(annotation.entries, entry => entry.id === action.entryId)
        )
      );
    default:
      return state;
  }
}

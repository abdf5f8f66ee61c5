/**
 * Small pure helpers of the reducers. Each returns its very input when nothing changes, so that
 * whoever compares by identity sees exactly what changed. `null` counts as absent throughout.
 */

/** The object with `key` set, or without it when the value is absent. */
export function withKey<T extends object, K extends keyof T>(
  object: T,
  key: K,
  value: T[K] | null | undefined
): T {
  if (value == null) {
    if (object[key] == null) {
      return object;
    }
    const { [key]: _, ...rest } = object;
    return rest as unknown as T;
  }
  return Object.is(object[key], value) ? object : { ...object, [key]: value };
}

/** The object with every key of `changes` set or, where absent there, removed. */
export function withKeys<T extends object>(object: T, changes: Partial<T>): T {
  let result = object;
  for (const key of Object.keys(changes) as (keyof T)[]) {
    result = withKey<T, keyof T>(result, key, changes[key]);
  }
  return result;
}

/** A new object of the entries that are not absent. */
export function compact<T extends object>(object: T): T {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value != null)) as T;
}

export function replaceAt<T>(list: readonly T[], index: number, item: T): readonly T[] {
  if (Object.is(list[index], item)) {
    return list;
  }
  const copy = list.slice();
  copy[index] = item;
  return copy;
}

/** Puts `item` in the place of the first entry that matches, else at the end. */
export function upsert<T>(
  list: readonly T[] | null | undefined,
  item: T,
  matches: (entry: T) => boolean
): readonly T[] {
  const index = list?.findIndex(matches) ?? -1;
  return index < 0 ? [...(list ?? []), item] : replaceAt(list!, index, item);
}

export function without<T>(list: readonly T[], matches: (entry: T) => boolean): readonly T[];
export function without<T>(
  list: readonly T[] | undefined,
  matches: (entry: T) => boolean
): readonly T[] | undefined;
export function without<T>(
  list: readonly T[] | undefined,
  matches: (entry: T) => boolean
): readonly T[] | undefined {
  return list?.some(matches) ? list.filter(entry => !matches(entry)) : list;
}

/** Sets or clears a bit of a status; status words are unsigned 32-bit. */
export function withBit(status: number | undefined, bit: number, on: boolean): number {
  const rest = (status ?? 0) & ~bit;
  return (on ? rest | bit : rest) >>> 0;
}

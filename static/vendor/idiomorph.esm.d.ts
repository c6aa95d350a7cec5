// The part of idiomorph that is used, for the type checker.
export const Idiomorph: {
  morph(old: Element, html: string, config?: { morphStyle?: 'innerHTML' | 'outerHTML' }): Node[];
};

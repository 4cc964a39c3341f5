// The one source of the precompiled-header target.

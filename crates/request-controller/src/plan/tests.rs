//! The table of the design, row by row, and what must hold for every plan whatever was observed.

mod ends;
mod evidence;
mod gate;
mod keep;
mod lasting;
mod prepared;
mod properties;
mod rows;
mod scene;
mod selection;
mod standing;
mod times;
mod words;
